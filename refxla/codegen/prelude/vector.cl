// Vectors of 32 bytes, for the accumulators of matrix products: total + a * b in each lane, as one fma or wrapping.

//! T = f32

static inline float8 rx_multiply_add_vector_T(float8 a, float8 b, float8 total) {
    return (float8)(RX_FMA_T(a.s0, b.s0, total.s0), RX_FMA_T(a.s1, b.s1, total.s1), RX_FMA_T(a.s2, b.s2, total.s2),
                    RX_FMA_T(a.s3, b.s3, total.s3), RX_FMA_T(a.s4, b.s4, total.s4), RX_FMA_T(a.s5, b.s5, total.s5),
                    RX_FMA_T(a.s6, b.s6, total.s6), RX_FMA_T(a.s7, b.s7, total.s7));
}

//! T = f64

static inline double4 rx_multiply_add_vector_T(double4 a, double4 b, double4 total) {
    return (double4)(RX_FMA_T(a.s0, b.s0, total.s0), RX_FMA_T(a.s1, b.s1, total.s1), RX_FMA_T(a.s2, b.s2, total.s2),
                     RX_FMA_T(a.s3, b.s3, total.s3));
}

//! T = u32

static inline uint8 rx_multiply_add_vector_T(uint8 a, uint8 b, uint8 total) {
    return total + a * b;
}

//! T = u64

static inline ulong4 rx_multiply_add_vector_T(ulong4 a, ulong4 b, ulong4 total) {
    return total + a * b;
}

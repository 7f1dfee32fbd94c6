// Vectors of 32 bytes, for the accumulators of matrix products: total + a * b in each lane, as one fma or wrapping.
// On x86, clang has the instruction itself, which compiles much faster than lanes that the compiler has to join again.

//! T = f32

static inline float8 rx_multiply_add_vector_T(float8 a, float8 b, float8 total) {
#if defined(__clang__) && defined(__FMA__)
    typedef float vector __attribute__((vector_size(32)));
    return __builtin_astype(__builtin_ia32_vfmaddps256(__builtin_astype(a, vector), __builtin_astype(b, vector),
                                                       __builtin_astype(total, vector)), float8);
#else
    return (float8)(RX_FMA_T(a.s0, b.s0, total.s0), RX_FMA_T(a.s1, b.s1, total.s1), RX_FMA_T(a.s2, b.s2, total.s2),
                    RX_FMA_T(a.s3, b.s3, total.s3), RX_FMA_T(a.s4, b.s4, total.s4), RX_FMA_T(a.s5, b.s5, total.s5),
                    RX_FMA_T(a.s6, b.s6, total.s6), RX_FMA_T(a.s7, b.s7, total.s7));
#endif
}

//! T = f64

static inline double4 rx_multiply_add_vector_T(double4 a, double4 b, double4 total) {
#if defined(__clang__) && defined(__FMA__)
    typedef double vector __attribute__((vector_size(32)));
    return __builtin_astype(__builtin_ia32_vfmaddpd256(__builtin_astype(a, vector), __builtin_astype(b, vector),
                                                       __builtin_astype(total, vector)), double4);
#else
    return (double4)(RX_FMA_T(a.s0, b.s0, total.s0), RX_FMA_T(a.s1, b.s1, total.s1), RX_FMA_T(a.s2, b.s2, total.s2),
                     RX_FMA_T(a.s3, b.s3, total.s3));
#endif
}

//! T = u32

static inline uint8 rx_multiply_add_vector_T(uint8 a, uint8 b, uint8 total) {
    return total + a * b;
}

//! T = u64

static inline ulong4 rx_multiply_add_vector_T(ulong4 a, ulong4 b, ulong4 total) {
    return total + a * b;
}

// Square blocks of a matrix, transposed in registers: r[i] is row i before and column i after.

//! T = f32

static inline void rx_transpose_block_T(float8* r) {
    float8 a = rx_interleave_low_T(r[0], r[1]), b = rx_interleave_high_T(r[0], r[1]);
    float8 c = rx_interleave_low_T(r[2], r[3]), d = rx_interleave_high_T(r[2], r[3]);
    float8 e = rx_interleave_low_T(r[4], r[5]), f = rx_interleave_high_T(r[4], r[5]);
    float8 g = rx_interleave_low_T(r[6], r[7]), h = rx_interleave_high_T(r[6], r[7]);
    float8 ac0 = rx_pairs_low_T(a, c), ac1 = rx_pairs_high_T(a, c), bd0 = rx_pairs_low_T(b, d), bd1 = rx_pairs_high_T(b, d);
    float8 eg0 = rx_pairs_low_T(e, g), eg1 = rx_pairs_high_T(e, g), fh0 = rx_pairs_low_T(f, h), fh1 = rx_pairs_high_T(f, h);
    r[0] = (float8)(ac0.lo, eg0.lo);
    r[1] = (float8)(ac1.lo, eg1.lo);
    r[2] = (float8)(bd0.lo, fh0.lo);
    r[3] = (float8)(bd1.lo, fh1.lo);
    r[4] = (float8)(ac0.hi, eg0.hi);
    r[5] = (float8)(ac1.hi, eg1.hi);
    r[6] = (float8)(bd0.hi, fh0.hi);
    r[7] = (float8)(bd1.hi, fh1.hi);
}

// Of each half of a and b: the elements in turn, or the pairs in turn; of the lower or upper part of the half.
static inline float8 rx_interleave_low_T(float8 a, float8 b) {
    return (float8)(a.s0, b.s0, a.s1, b.s1, a.s4, b.s4, a.s5, b.s5);
}

static inline float8 rx_interleave_high_T(float8 a, float8 b) {
    return (float8)(a.s2, b.s2, a.s3, b.s3, a.s6, b.s6, a.s7, b.s7);
}

static inline float8 rx_pairs_low_T(float8 a, float8 b) {
    return (float8)(a.s01, b.s01, a.s45, b.s45);
}

static inline float8 rx_pairs_high_T(float8 a, float8 b) {
    return (float8)(a.s23, b.s23, a.s67, b.s67);
}

//! T = f64

static inline void rx_transpose_block_T(double4* r) {
    double4 a = (double4)(r[0].s0, r[1].s0, r[0].s2, r[1].s2), b = (double4)(r[0].s1, r[1].s1, r[0].s3, r[1].s3);
    double4 c = (double4)(r[2].s0, r[3].s0, r[2].s2, r[3].s2), d = (double4)(r[2].s1, r[3].s1, r[2].s3, r[3].s3);
    r[0] = (double4)(a.lo, c.lo);
    r[1] = (double4)(b.lo, d.lo);
    r[2] = (double4)(a.hi, c.hi);
    r[3] = (double4)(b.hi, d.hi);
}

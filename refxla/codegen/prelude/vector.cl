// Vectors of 32 bytes, for the accumulators of matrix products: total + a * b in each lane, as one fma or wrapping.
// On x86, clang has the instruction itself, which compiles much faster than lanes that the compiler has to join again;
// a runtime that compiles for a processor that clang is not told of (Intel's) does not join them at all.

//! T = f32

static inline float8 rx_multiply_add_vector_T(float8 a, float8 b, float8 total) {
#if defined(__clang__) && defined(__FMA__)
    typedef float vector __attribute__((vector_size(32)));
    return __builtin_astype(__builtin_ia32_vfmaddps256(__builtin_astype(a, vector), __builtin_astype(b, vector),
                                                       __builtin_astype(total, vector)), float8);
#elif defined(RX_FMA_LANES)
    return RX_FMA_LANES(a, b, total);
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
#elif defined(RX_FMA_LANES)
    return RX_FMA_LANES(a, b, total);
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

// Vectors of 64 bytes likewise, in functions that may use the registers of AVX-512 (Target.features).

//! T = f32

static inline RX_WIDE float16 rx_multiply_add_wide_T(float16 a, float16 b, float16 total) {
    typedef float vector __attribute__((vector_size(64)));
    return __builtin_astype(
        __builtin_ia32_vfmaddps512_mask(__builtin_astype(a, vector), __builtin_astype(b, vector),
                                        __builtin_astype(total, vector), (ushort)-1, 4), float16);
}

//! T = f64

static inline RX_WIDE double8 rx_multiply_add_wide_T(double8 a, double8 b, double8 total) {
    typedef double vector __attribute__((vector_size(64)));
    return __builtin_astype(
        __builtin_ia32_vfmaddpd512_mask(__builtin_astype(a, vector), __builtin_astype(b, vector),
                                        __builtin_astype(total, vector), (uchar)-1, 4), double8);
}

//! T = u32

static inline RX_WIDE uint16 rx_multiply_add_wide_T(uint16 a, uint16 b, uint16 total) {
    return total + a * b;
}

//! T = u64

static inline RX_WIDE ulong8 rx_multiply_add_wide_T(ulong8 a, ulong8 b, ulong8 total) {
    return total + a * b;
}

// Words of several terms (codegen/products/words.py): total + a * b, where a and b have two signed halves in each lane, or
// unsigned and signed bytes, whose products are added.

//! T = u32

static inline uint8 rx_multiply_pairs_vector_T(uint8 a, uint8 b, uint8 total) {
#if defined(__clang__) && defined(__AVX2__)
    typedef short vector __attribute__((vector_size(32)));
    return total + __builtin_astype(__builtin_ia32_pmaddwd256(__builtin_astype(a, vector),
                                                              __builtin_astype(b, vector)), uint8);
#else
    const uint8 low = as_uint8((as_int8(a << 16u) >> 16) * (as_int8(b << 16u) >> 16));
    return total + low + as_uint8((as_int8(a) >> 16) * (as_int8(b) >> 16));
#endif
}

static inline RX_WIDE uint16 rx_multiply_pairs_wide_T(uint16 a, uint16 b, uint16 total) {
#ifdef RX_VNNI
    typedef int vector __attribute__((vector_size(64)));
    return __builtin_astype(__builtin_ia32_vpdpwssd512(__builtin_astype(total, vector), __builtin_astype(a, vector),
                                                       __builtin_astype(b, vector)), uint16);
#else
    typedef short vector __attribute__((vector_size(64)));
    return total + __builtin_astype(__builtin_ia32_pmaddwd512(__builtin_astype(a, vector),
                                                              __builtin_astype(b, vector)), uint16);
#endif
}

static inline RX_WIDE uint8 rx_multiply_quads_wide_half_T(uint8 a, uint8 b, uint8 total) {
    typedef int vector __attribute__((vector_size(32)));
    return __builtin_astype(__builtin_ia32_vpdpbusd256(__builtin_astype(total, vector), __builtin_astype(a, vector),
                                                       __builtin_astype(b, vector)), uint8);
}

static inline RX_WIDE uint16 rx_multiply_quads_wide_T(uint16 a, uint16 b, uint16 total) {
    typedef int vector __attribute__((vector_size(64)));
    return __builtin_astype(__builtin_ia32_vpdpbusd512(__builtin_astype(total, vector), __builtin_astype(a, vector),
                                                       __builtin_astype(b, vector)), uint16);
}

// Pairs of bf16 in each lane, whose products are added one by one: total + upper * upper, then + lower * lower. The
// processor's own instruction has no subnormal numbers; the other form has.

//! T = f32

static inline RX_WIDE float8 rx_multiply_pairs_wide_half_T(float8 a, float8 b, float8 total) {
    typedef float vector __attribute__((vector_size(32)));
    typedef int pairs __attribute__((vector_size(32)));
    return __builtin_astype(__builtin_ia32_dpbf16ps_256(__builtin_astype(total, vector), __builtin_astype(a, pairs),
                                                        __builtin_astype(b, pairs)), float8);
}

static inline RX_WIDE float16 rx_multiply_pairs_wide_T(float16 a, float16 b, float16 total) {
    typedef float vector __attribute__((vector_size(64)));
    typedef int pairs __attribute__((vector_size(64)));
    return __builtin_astype(__builtin_ia32_dpbf16ps_512(__builtin_astype(total, vector), __builtin_astype(a, pairs),
                                                        __builtin_astype(b, pairs)), float16);
}

static inline RX_WIDE float8 rx_multiply_halves_wide_half_T(float8 a, float8 b, float8 total) {
    const uint8 x = as_uint8(a), y = as_uint8(b);
    total = rx_multiply_add_vector_T(as_float8(x & 0xffff0000u), as_float8(y & 0xffff0000u), total);
    return rx_multiply_add_vector_T(as_float8(x << 16u), as_float8(y << 16u), total);
}

static inline RX_WIDE float16 rx_multiply_halves_wide_T(float16 a, float16 b, float16 total) {
    const uint16 x = as_uint16(a), y = as_uint16(b);
    total = rx_multiply_add_wide_T(as_float16(x & 0xffff0000u), as_float16(y & 0xffff0000u), total);
    return rx_multiply_add_wide_T(as_float16(x << 16u), as_float16(y << 16u), total);
}

// Blocks of a matrix, transposed in registers. Before, r[i] holds a few elements of row i in its lower half and those of
// row i + n in its upper half, where n is the number of vectors and of elements in a half; after it, r[i] is column i.
// (Halves that come from memory by themselves cost less than vectors of whole rows, whose halves have to change places.)

//! T = f32

static inline void rx_transpose_halves_T(float8* r) {
    float8 a = rx_interleave_low_T(r[0], r[1]), b = rx_interleave_high_T(r[0], r[1]);
    float8 c = rx_interleave_low_T(r[2], r[3]), d = rx_interleave_high_T(r[2], r[3]);
    r[0] = rx_pairs_low_T(a, c);
    r[1] = rx_pairs_high_T(a, c);
    r[2] = rx_pairs_low_T(b, d);
    r[3] = rx_pairs_high_T(b, d);
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

//! T = u32

static inline void rx_transpose_halves_T(uint8* r) {
    float8 columns[4] = {as_float8(r[0]), as_float8(r[1]), as_float8(r[2]), as_float8(r[3])};
    rx_transpose_halves_f32(columns);
    for (int i = 0; i < 4; ++i) r[i] = as_uint8(columns[i]);
}

//! T = f64

static inline void rx_transpose_halves_T(double4* r) {
    double4 a = r[0], b = r[1];
    r[0] = (double4)(a.s0, b.s0, a.s2, b.s2);
    r[1] = (double4)(a.s1, b.s1, a.s3, b.s3);
}

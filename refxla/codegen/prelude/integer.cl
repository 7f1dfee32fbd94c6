// Integers: everything wraps, nothing traps, and shifts by the width or more push every bit out.

// Quotients of integers where b is not 0 and nothing overflows. Processors divide vectors of floating-point numbers, but
// integers one at a time. The quotient of a and b rounded to p bits is truncated to the right integer: where it is no
// integer, it lies at least 1/|b| from the next one, and rounding moves it by at most |a/b| 2^-p, which is less if
// |a| < 2^p. A compiler knows more of a constant divisor.

//! I = s8 s16 u8 u16

static inline I rx_quotient_I(I a, I b) {
    return RX_IS_CONSTANT(b) ? (I)(a / b) : (I)((float)a / (float)b);
}

//! I = s32 u32 s64 u64

static inline I rx_quotient_I(I a, I b) {
    return a / b;
}

//! I = s8 s16 s32 s64

// The quotient rounded towards zero; -1 for a zero divisor; the smallest integer divided by -1 wraps to itself.
static inline I rx_divide_I(I a, I b) {
    I divisor = ((b == 0) | ((a == MIN_I) & (b == -1))) ? (I)1 : b;
    return b == 0 ? (I)-1 : rx_quotient_I(a, divisor);
}

// Repeated squaring; a negative exponent gives 0, save for the bases 1 and -1.
static inline I rx_power_I(I base, I exponent) {
    WIDE_U_I square = (WIDE_U_I)base;
    WIDE_U_I result = 1;
    WIDE_U_I bits = exponent < 0 ? 0 : (WIDE_U_I)exponent;
    for (; bits != 0; bits >>= 1) {
        result = (bits & 1) ? result * square : result;
        square *= square;
    }
    I reciprocal = base == 1 ? (I)1 : base == -1 ? (I)((exponent & 1) ? -1 : 1) : (I)0;
    return exponent < 0 ? reciprocal : (I)result;
}

static inline I rx_abs_I(I a) {
    return a < 0 ? (I)(0 - (WIDE_U_I)a) : a;
}

static inline I rx_sign_I(I a) {
    return (I)((a > 0) - (a < 0));
}

static inline I rx_shift_right_arithmetic_I(I a, I b) {
    return (I)(a >> ((U_I)b < WIDTH_I ? (int)b : WIDTH_I - 1));
}

//! I = u8 u16 u32 u64

static inline I rx_divide_I(I a, I b) {
    return b == 0 ? MAX_I : rx_quotient_I(a, b == 0 ? (I)1 : b);
}

static inline I rx_power_I(I base, I exponent) {
    WIDE_U_I square = base;
    WIDE_U_I result = 1;
    for (WIDE_U_I bits = exponent; bits != 0; bits >>= 1) {
        result = (bits & 1) ? result * square : result;
        square *= square;
    }
    return (I)result;
}

static inline I rx_abs_I(I a) {
    return a;
}

static inline I rx_sign_I(I a) {
    return (I)(a != 0);
}

// The sign bit is the top bit, whatever the type says.
static inline I rx_shift_right_arithmetic_I(I a, I b) {
    return (I)((S_I)a >> (b < WIDTH_I ? (int)b : WIDTH_I - 1));
}

//! I = s8 s16 s32 s64 u8 u16 u32 u64

// What the quotient leaves: the dividend for a zero divisor, 0 for a divisor of -1.
static inline I rx_remainder_I(I a, I b) {
    return (I)((WIDE_U_I)a - (WIDE_U_I)rx_divide_I(a, b) * (WIDE_U_I)b);
}

//! I = s32

// Quotient and remainder by products with a reciprocal in doubles, for loops: alone, they take longer than a division of
// integers. A loop computes the reciprocal of a divisor that it keeps once. The reciprocal is too large, by between
// 2^-51 and 2^-49 of it after all roundings: what is an integer does not fall below it, and nothing else reaches the next
// one, which is at least 1 / |b| away.
static inline double rx_reciprocal_in_f64_I(I b) {
    return 1.0 / (double)b * (1.0 + 0x1p-50);
}

static inline I rx_divide_in_f64_I(I a, I b) {
    I divisor = ((b == 0) | (b == -1)) ? (I)1 : b;
    I quotient = (I)((double)a * rx_reciprocal_in_f64_I(divisor));
    return b == 0 ? (I)-1 : b == -1 ? (I)((WIDE_U_I)0 - (WIDE_U_I)a) : quotient;
}

static inline I rx_remainder_in_f64_I(I a, I b) {
    I divisor = ((b == 0) | (b == -1)) ? (I)1 : b;
    I quotient = (I)((double)a * rx_reciprocal_in_f64_I(divisor));
    return (I)((WIDE_U_I)a - (WIDE_U_I)quotient * (WIDE_U_I)(b == -1 ? (I)1 : b));
}

//! I = u32

static inline double rx_reciprocal_in_f64_I(I b) {
    return 1.0 / (double)b * (1.0 + 0x1p-50);
}

static inline I rx_divide_in_f64_I(I a, I b) {
    I quotient = (I)((double)a * rx_reciprocal_in_f64_I(b == 0 ? (I)1 : b));
    return b == 0 ? MAX_I : quotient;
}

static inline I rx_remainder_in_f64_I(I a, I b) {
    return (I)((WIDE_U_I)a - (WIDE_U_I)rx_divide_in_f64_I(a, b) * (WIDE_U_I)b);
}

//! I = s8 s16 s32 s64 u8 u16 u32 u64

static inline I rx_shift_left_I(I a, I b) {
    return (U_I)b < WIDTH_I ? (I)((WIDE_U_I)a << (int)((U_I)b & (WIDTH_I - 1))) : (I)0;
}

static inline I rx_shift_right_logical_I(I a, I b) {
    return (U_I)b < WIDTH_I ? (I)((U_I)a >> (int)((U_I)b & (WIDTH_I - 1))) : (I)0;
}

//! I = s8 s16 s32 u8 u16 u32

static inline I rx_popcnt_I(I a) {
    return (I)RX_POPCOUNT_U32((uint)(U_I)a);
}

static inline I rx_count_leading_zeros_I(I a) {
    return (I)(RX_CLZ_U32((uint)(U_I)a) - (32 - WIDTH_I));
}

//! I = s64 u64

static inline I rx_popcnt_I(I a) {
    return (I)RX_POPCOUNT_U64((ulong)a);
}

static inline I rx_count_leading_zeros_I(I a) {
    return (I)RX_CLZ_U64((ulong)a);
}

//! I = s8 s16 s32

// The upper half of the double-width product.
static inline I rx_mulhi_I(I a, I b) {
    return (I)(((long)a * (long)b) >> WIDTH_I);
}

//! I = u8 u16 u32

static inline I rx_mulhi_I(I a, I b) {
    return (I)(((ulong)a * (ulong)b) >> WIDTH_I);
}

//! I = u64

static inline I rx_mulhi_I(I a, I b) {
    ulong a0 = a & 0xffffffffu, a1 = a >> 32, b0 = b & 0xffffffffu, b1 = b >> 32;
    ulong middle = a1 * b0 + ((a0 * b0) >> 32);
    ulong other = a0 * b1 + (middle & 0xffffffffu);
    return a1 * b1 + (middle >> 32) + (other >> 32);
}

//! I = s64

static inline I rx_mulhi_I(I a, I b) {
    ulong high = rx_mulhi_u64((ulong)a, (ulong)b);
    return (I)(high - (a < 0 ? (ulong)b : 0ul) - (b < 0 ? (ulong)a : 0ul));
}

//! I = s8 u8

static inline I rx_clamp_I(I low, I x, I high) {
    return x < low ? low : x > high ? high : x;
}

//! T = s32

// A number that clang does not see through. It takes a load of one iteration for that of a neighbour in the one before
// where it knows the first, and makes no vectors of a loop in which a number is handed on twice (LLVM 14).
static inline int rx_hidden_T(int a) {
#if defined(__clang__)
    __asm__("" : "+r"(a));
#endif
    return a;
}

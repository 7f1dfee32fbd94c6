// Floating point beyond what C's operators say: NaN and signed zero in comparisons, rounding to integers, fmod.

//! T = f32 f64 f32x8 f64x4

// A NaN operand makes the result NaN; +0 is greater than -0; the two selections, each an instruction of its own on most
// processors, differ where the operands are zeros of both signs, or one is a NaN.
static inline T rx_maximum_T(T a, T b) {
    T one = a > b ? a : b, other = b > a ? b : a;
    return ((a == a) & (b == b)) ? as_T(as_UBITS_T(one) & as_UBITS_T(other)) : a + b;
}

static inline T rx_minimum_T(T a, T b) {
    T one = a < b ? a : b, other = b < a ? b : a;
    return ((a == a) & (b == b)) ? as_T(as_UBITS_T(one) | as_UBITS_T(other)) : a + b;
}

//! T = f32 f64

// The same with a constant c that is no NaN: one selection, which gives x where that is a NaN. Beside zero x is compared
// with the number next to it, since LLVM 14 takes x < 0 ? -0 : x for a maximum, and +0 for less than -0 in it.
static inline T rx_maximum_by_constant_T(T x, T c) {
    if (c != 0.0) return x < c ? c : x;
    return as_BITS_T(c) == 0 ? (x < LEAST_T ? c : x) : (x <= -LEAST_T ? c : x);
}

static inline T rx_minimum_by_constant_T(T x, T c) {
    if (c != 0.0) return x > c ? c : x;
    return as_BITS_T(c) == 0 ? (x >= LEAST_T ? c : x) : (x > -LEAST_T ? c : x);
}

static inline T rx_clamp_by_constant_T(T low, T x, T high) {
    return rx_minimum_by_constant_T(rx_maximum_by_constant_T(x, low), high);
}

static inline T rx_clamp_T(T low, T x, T high) {
    return rx_minimum_T(rx_maximum_T(low, x), high);
}

// NaN and both zeros are their own sign.
static inline T rx_sign_T(T x) {
    return x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : x;
}

static inline int rx_is_finite_T(T x) {
    return (as_UBITS_T(x) & INF_T) != INF_T;
}

// Halves go away from zero. |x| minus its integer part is exact, so no half is made by rounding.
static inline T rx_round_nearest_afz_T(T x) {
    T magnitude = RX_FABS_T(x);
    T whole = RX_TRUNC_T(magnitude);
    return RX_COPYSIGN_T(magnitude - whole >= 0.5 ? whole + 1.0 : whole, x);
}

static inline T rx_rsqrt_T(T x) {
    return 1.0 / RX_SQRT_T(x);
}

// An integer that orders as the total order of IEEE 754 does: -NaN < -inf < ... < -0 < +0 < ... < +NaN.
static inline BITS_T rx_total_order_T(T x) {
    BITS_T bits = as_BITS_T(x);
    return bits ^ (BITS_T)((UBITS_T)(bits >> (8 * sizeof(T) - 1)) >> 1);
}

// The remainder of |x| and |y| for |x| >= |y|: long division of the mantissas, as many bits a step as the word has room
// for. NaN where C's fmod is.
static inline T rx_remainder_far_T(T x, T y) {
    const UBITS_T implicit = (UBITS_T)1 << MANTISSA_T;
    UBITS_T xbits = as_UBITS_T(x) & ~SIGN_T, ybits = as_UBITS_T(y) & ~SIGN_T;
    int xexponent = (int)(xbits >> MANTISSA_T), yexponent = (int)(ybits >> MANTISSA_T);
    ulong divisor = (ybits & (implicit - 1)) | (yexponent > 0 ? implicit : 0);
    ulong rest = (xbits & (implicit - 1)) | (xexponent > 0 ? implicit : 0);
    xexponent = xexponent > 0 ? xexponent : 1;
    yexponent = yexponent > 0 ? yexponent : 1;
    divisor = divisor == 0 ? 1 : divisor;
    rest %= divisor;
    for (int left = xexponent - yexponent; left > 0;) {
        int step = left < 63 - MANTISSA_T ? left : 63 - MANTISSA_T;
        rest = (rest << step) % divisor;
        left = rest == 0 ? 0 : left - step;
    }
    T result = (T)rest * as_T((UBITS_T)(BIAS_T - MANTISSA_T) << MANTISSA_T) * as_T((UBITS_T)yexponent << MANTISSA_T);
    int invalid = (xbits >= INF_T) | (ybits > INF_T) | (ybits == 0);
    return invalid ? NAN_T : result;
}

// As fmod of the language C: exact, with the sign of x. A quotient that T has all integers around is rounded to the one
// below or, at most, the next: what is left of |x| after that many |y| is a number of T.
static inline T rx_remainder_T(T x, T y) {
    T a = RX_FABS_T(x), b = RX_FABS_T(y);
    T quotient = a / b;
    T rest = RX_FMA_T(-RX_TRUNC_T(quotient), b, a);
    rest = a < b ? a : rest < 0.0 ? rest + b : rest;
    if (!(quotient < ROUND_T)) rest = rx_remainder_far_T(x, y);
    return rest == rest ? RX_COPYSIGN_T(rest, x) : rest;
}

// The same, for a y that is a power of two from 1 to 2^64, or the opposite of one: every step is exact, without a loop.
static inline T rx_remainder_by_constant_T(T x, T y) {
    return RX_COPYSIGN_T(x - RX_TRUNC_T(x / y) * y, x);
}

//! F = f32

// The remainder for any y in doubles and without a branch, so that loops become vectors. Each step takes the multiples
// of |y| 2^s from the rest, s = 240, 192, ..., 0: fewer than 2^49 of them, since |x| < 2^277 |y|. The product with the
// reciprocal is off by less than 1, so one |y| 2^s too few or too many is left. All rests are multiples of the last bit of
// |y| 2^s: exact.
static inline F rx_remainder_in_f64_F(F x, F y) {
    double a = RX_FABS_F(x), b = RX_FABS_F(y);
    double rest = a, step = b * 0x1p240, inverse_step = 1.0 / b * 0x1p-240;
    #pragma unroll
    for (int n = 0; n < 6; ++n) {
        rest = RX_FMA_F64(-RX_TRUNC_F64(rest * inverse_step), step, rest);
        rest = rest < 0.0 ? rest + step : rest;
        rest = rest >= step ? rest - step : rest;
        step *= 0x1p-48;
        inverse_step *= 0x1p48;
    }
    F result = (F)(a < b ? a : rest);
    return result == result ? RX_COPYSIGN_F(result, x) : NAN_F;
}

//! I = u32 u64

// The bits of a number without its sign, in a format of own_exponent and own_mantissa bits, with the mantissa rounded
// to `mantissa` bits and the exponent limited to `exponent` bits: what is then too great is infinite, and what is below
// the least normal number of that narrower format is zero. Infinities and NaNs stay.
static inline I rx_reduce_I(I bits, int own_exponent, int own_mantissa, int exponent, int mantissa) {
    I infinity = (((I)1 << own_exponent) - 1) << own_mantissa;
    int own_bias = (1 << (own_exponent - 1)) - 1, bias = (1 << (exponent - 1)) - 1;
    int dropped = mantissa < own_mantissa ? own_mantissa - mantissa : 0;
    I below_half = ((I)1 << dropped >> 1) - (dropped > 0);
    I even = dropped > 0 ? bits >> dropped & 1 : 0;
    I rounded = (bits + below_half + even) >> dropped << dropped;
    int power = (int)(rounded >> own_mantissa) - own_bias;
    I limited = power > bias ? infinity : power <= -bias ? 0 : rounded;
    return bits >= infinity ? bits : exponent < own_exponent ? limited : rounded;
}

//! T = f32

static inline T rx_reduce_precision_T(T x, int exponent, int mantissa) {
    uint sign = as_uint(x) & SIGN_T;
    return as_float(rx_reduce_u32(as_uint(x) ^ sign, 8, 23, exponent, mantissa) | sign);
}

static inline float rx_reduce_precision_f16(float x, int exponent, int mantissa) {
    uint bits = rx_store_f16(x), sign = bits & 0x8000u;
    return rx_load_f16((ushort)(rx_reduce_u32(bits ^ sign, 5, 10, exponent, mantissa) | sign));
}

static inline float rx_reduce_precision_bf16(float x, int exponent, int mantissa) {
    uint bits = rx_store_bf16(x), sign = bits & 0x8000u;
    return rx_load_bf16((ushort)(rx_reduce_u32(bits ^ sign, 8, 7, exponent, mantissa) | sign));
}

//! F = f8e5m2 f8e4m3 f8e3m4

static inline float rx_reduce_precision_F(float x, int exponent, int mantissa) {
    uint bits = rx_store_F(x), sign = bits & SIGN_CODE_F;
    return rx_load_F((uchar)(rx_reduce_u32(bits ^ sign, EXPONENT_BITS_F, MANTISSA_BITS_F, exponent, mantissa) | sign));
}

//! T = f64

static inline T rx_reduce_precision_T(T x, int exponent, int mantissa) {
    ulong sign = as_ulong(x) & SIGN_T;
    return as_double(rx_reduce_u64(as_ulong(x) ^ sign, 11, 52, exponent, mantissa) | sign);
}

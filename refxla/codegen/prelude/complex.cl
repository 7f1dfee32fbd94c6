// Complex numbers: T2 holds the real part in x and the imaginary part in y. The formulas are the ones that keep large
// and small operands in range; the special values are those of the language C, Annex G.

//! T = f32 f64

// n with 2^(n-1) <= |x| < 2^n for a finite x other than 0; 0 for 0.
static inline BITS_T rx_exponent_T(T x) {
    T a = RX_FABS_T(x);
    T scaled = a < TINY_T ? a * 0x1p54 : a;
    BITS_T n = (as_BITS_T(scaled) >> MANTISSA_T) - (BIAS_T - 1) - (a < TINY_T ? 54 : 0);
    return a == 0.0 ? 0 : n;
}

// The greater of |x| and |y|, a NaN only if both are.
static inline T rx_greater_T(T x, T y) {
    T a = RX_FABS_T(x), b = RX_FABS_T(y);
    return ((a > b) | (b != b)) ? a : b;
}

// The exponent to take off so that the greater part of z is near 1; 0 where z is zero, infinite or NaN.
static inline BITS_T rx_exponent_C(T2 z) {
    T greater = rx_greater_T(z.x, z.y);
    return rx_is_finite_T(greater) ? rx_exponent_T(greater) : 0;
}

static inline T rx_abs_C(T2 z) {
    BITS_T n = rx_exponent_C(z);
    T a = rx_scale_T(z.x, -n), b = rx_scale_T(z.y, -n);
    T size = rx_scale_T(RX_SQRT_T(RX_FMA_T(a, a, b * b)), n);
    int infinite = (RX_FABS_T(z.x) == INFINITY_T) | (RX_FABS_T(z.y) == INFINITY_T);
    return infinite ? INFINITY_T : size;
}

// Whether a number other than 0 is so far from 1 that products and quotients of products may overflow or lose bits near
// the least numbers. A loop asks once for many (fast_path_math.py): if none is, it calls the functions named fast, which
// do not scale.
static inline int rx_far_from_one_T(T x) {
    UBITS_T magnitude = as_UBITS_T(x) & ~SIGN_T, least = (UBITS_T)(BIAS_T - BIAS_T / 5) << MANTISSA_T;
    UBITS_T span = (UBITS_T)(BIAS_T / 5 * 2) << MANTISSA_T;
    return (magnitude - least >= span) & (magnitude != 0);
}

static inline int rx_abs_beyond_fast_C(T2 z) {
    return rx_far_from_one_T(z.x) | rx_far_from_one_T(z.y);
}

static inline T rx_abs_fast_C(T2 z) {
    return RX_SQRT_T(RX_FMA_T(z.x, z.x, z.y * z.y));
}

// A choice by parts: LLVM makes no vectors of a loop with a choice between vectors of two.
static inline T2 rx_select_C(int first, T2 a, T2 b) {
    return (T2)(first ? a.x : b.x, first ? a.y : b.y);
}

// Not repaired where infinities meet: (inf + 0i) (1 + 0i) has a NaN.
static inline T2 rx_multiply_C(T2 a, T2 b) {
    return (T2)(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

// x 2^n for an n of up to four times the range of exponents, rounded once.
static inline T rx_scale_far_T(T x, BITS_T n) {
    BITS_T halved = n >> 1;
    return rx_scale_T(rx_scale_T(x, halved), n - halved);
}

// A size with a sign, which is + where that of a NaN would decide: processors differ in the signs of theirs.
static inline T rx_signed_T(T size, T sign) {
    return RX_COPYSIGN_T(size, sign == sign ? sign : 0.0);
}

// 1 with the sign of x if x is infinite, else a zero with that sign.
static inline T rx_box_T(T x) {
    return RX_COPYSIGN_T(RX_FABS_T(x) == INFINITY_T ? 1.0 : 0.0, x);
}

// A finite x no farther from 0 than 1.
static inline T rx_within_one_T(T x) {
    return !rx_is_finite_T(x) ? x : x > 1.0 ? 1.0 : x < -1.0 ? -1.0 : x;
}

static inline T2 rx_divide_C(T2 a, T2 b) {
    int a_finite = rx_is_finite_T(a.x) & rx_is_finite_T(a.y), b_finite = rx_is_finite_T(b.x) & rx_is_finite_T(b.y);
    int a_infinite = (RX_FABS_T(a.x) == INFINITY_T) | (RX_FABS_T(a.y) == INFINITY_T);
    int b_infinite = (RX_FABS_T(b.x) == INFINITY_T) | (RX_FABS_T(b.y) == INFINITY_T);
    int b_zero = (b.x == 0.0) & (b.y == 0.0);
    BITS_T n = rx_exponent_C(b), m = rx_exponent_C(a);
    // Beside an infinity only signs and zeros count, which scaling could lose.
    int far = a_infinite & b_finite & !b_zero;
    T c = far ? b.x : rx_scale_T(b.x, -n), d = far ? b.y : rx_scale_T(b.y, -n);
    T e = far ? rx_within_one_T(a.x) : rx_scale_T(a.x, -m), f = far ? rx_within_one_T(a.y) : rx_scale_T(a.y, -m);
    T norm = far ? 1.0 : RX_FMA_T(c, c, d * d);
    T real = rx_scale_far_T((e * c + f * d) / norm, m - n);
    T imag = rx_scale_far_T((f * c - e * d) / norm, m - n);
    int nan = (real != real) & (imag != imag);
    int by_zero = nan & b_zero & ((a.x == a.x) | (a.y == a.y));
    T infinity = RX_COPYSIGN_T(INFINITY_T, b.x);
    T ar = rx_box_T(a.x), ai = rx_box_T(a.y), br = rx_box_T(b.x), bi = rx_box_T(b.y);
    int case_a = nan & !by_zero & a_infinite & b_finite, case_b = nan & !by_zero & b_infinite & a_finite;
    real = by_zero ? infinity * a.x : case_a ? INFINITY_T * (ar * b.x + ai * b.y) : real;
    imag = by_zero ? infinity * a.y : case_a ? INFINITY_T * (ai * b.x - ar * b.y) : imag;
    T part = m > 0 ? 0.5 : 1.0;  // so that no sum overflows
    real = case_b ? 0.0 * (part * a.x * br + part * a.y * bi) : real;
    imag = case_b ? 0.0 * (part * a.y * br - part * a.x * bi) : imag;
    return (T2)(real, imag);
}

static inline int rx_divide_beyond_fast_C(T2 a, T2 b) {
    int far = rx_far_from_one_T(a.x) | rx_far_from_one_T(a.y) | rx_far_from_one_T(b.x) | rx_far_from_one_T(b.y);
    return far | ((b.x == 0.0) & (b.y == 0.0));
}

static inline T2 rx_divide_fast_C(T2 a, T2 b) {
    T norm = RX_FMA_T(b.x, b.x, b.y * b.y);
    return (T2)((a.x * b.x + a.y * b.y) / norm, (a.y * b.x - a.x * b.y) / norm);
}

// z / |z|, and z itself for a zero.
static inline T2 rx_sign_C(T2 z) {
    BITS_T n = rx_exponent_C(z);
    T a = rx_scale_T(z.x, -n), b = rx_scale_T(z.y, -n);
    T size = RX_SQRT_T(RX_FMA_T(a, a, b * b));
    size = ((a == 0.0) & (b == 0.0)) ? 1.0 : ((a != a) | (b != b)) ? NAN_T : size;
    return (T2)(a / size, b / size);
}

// The operand with the greater real part, of equal ones the greater imaginary part; a NaN before all others.
static inline T2 rx_maximum_C(T2 a, T2 b) {
    int greater = (a.x > b.x) | ((a.x == b.x) & (a.y > b.y));
    int a_nan = (a.x != a.x) | (a.y != a.y), b_nan = (b.x != b.x) | (b.y != b.y);
    int first = (greater | a_nan) & !(b_nan & !a_nan);
    return rx_select_C(first, a, b);
}

static inline T2 rx_minimum_C(T2 a, T2 b) {
    int less = (a.x < b.x) | ((a.x == b.x) & (a.y < b.y));
    int a_nan = (a.x != a.x) | (a.y != a.y), b_nan = (b.x != b.x) | (b.y != b.y);
    int first = (less | a_nan) & !(b_nan & !a_nan);
    return rx_select_C(first, a, b);
}

// (2^n x c, 2^n x s), where 2^n alone may overflow or vanish, and c or s may be subnormal.
static inline T2 rx_scaled_times_C(T x, BITS_T n, T c, T s) {
    BITS_T first = n >> 1;
    T2 part = (T2)(x * rx_scale_T(c, first), x * rx_scale_T(s, first));
    return (T2)(rx_scale_T(part.x, n - first), rx_scale_T(part.y, n - first));
}

// (2^more e^x c, 2^more e^x s), where e^x alone may overflow or vanish, and c or s may be subnormal.
static inline T2 rx_scaled_exp_times_C(T x, int more, T c, T s) {
    T limit = 2.0 * K(exp_overflow) + 40.0;
    T bounded = x > limit ? limit : x < -limit ? -limit : x;
    BITS_T n;
    T low;
    T high = rx_exp_parts_T(bounded, 0.0, &n, &low);
    T power = high + low;
    return rx_scaled_times_C(power, n + more, c, s);
}

static inline T2 rx_exp_times_C(T x, T c, T s) {
    return rx_scaled_exp_times_C(x, 0, c, s);
}

// The power of a real number to z, which is `value` where both parts of z are finite.
static inline T2 rx_power_or_limit_C(T2 z, T2 value) {
    int endless = !rx_is_finite_T(z.y);
    T vanishing = z.x == -INFINITY_T ? 0.0 : value.x;
    T real = endless ? (z.x == INFINITY_T ? z.x : vanishing) : value.x;
    T imag = (endless & (z.x == -INFINITY_T)) ? rx_signed_T(0.0, z.y) : value.y;
    return (T2)(real, imag);
}

// Functions of the sine and cosine of one part (trig.cl) are written as functions of these, too: those named fast take
// the fast ones, for an angle that is not large.
static inline int rx_exponential_beyond_fast_C(T2 z) {
    return rx_is_large_angle_T(z.y);
}

static inline T2 rx_exponential_of_C(T2 z, T sine, T cosine) {
    T2 value = rx_exp_times_C(z.x, cosine, sine);
    return rx_select_C(z.y == 0.0, (T2)(rx_exponential_T(z.x), z.y), rx_power_or_limit_C(z, value));
}

static inline T2 rx_exponential_fast_C(T2 z) {
    return rx_exponential_of_C(z, rx_sine_fast_T(z.y), rx_cosine_fast_T(z.y));
}

static inline T2 rx_exponential_C(T2 z) {
    return rx_exponential_of_C(z, rx_sine_T(z.y), rx_cosine_T(z.y));
}

// The angle z.y log 2 = angle + rest turns by the rest once more.
static inline T2 rx_exp2_C(T2 z) {
    T angle = z.y * K(ln2_high);
    T rest = RX_FMA_T(z.y, K(ln2_high), -angle) + z.y * K(ln2_low);
    T c = rx_cosine_T(angle), s = rx_sine_T(angle);
    T limit = 2.0 * K(exp2_overflow) + 60.0;
    T bounded = z.x > limit ? limit : z.x < -limit ? -limit : z.x;
    BITS_T n;
    T power = rx_exp2_parts_T(bounded, &n);
    T2 value = rx_scaled_times_C(power, n, RX_FMA_T(-rest, s, c), RX_FMA_T(rest, c, s));
    return rx_select_C(z.y == 0.0, (T2)(rx_exp2_T(z.x), z.y), rx_power_or_limit_C(z, value));
}

static inline int rx_exponential_minus_one_beyond_fast_C(T2 z) {
    return rx_is_large_angle_T(z.y);
}

// (e^a - 1) cos b - 2 sin^2(b / 2) + i e^a sin b
static inline T2 rx_exponential_minus_one_of_C(T2 z, T half_sine, T sine, T cosine) {
    T minus_one = rx_exponential_minus_one_T(z.x);
    T2 value = rx_exp_times_C(z.x, cosine, sine);
    T real = RX_FABS_T(z.x) > 1.0 ? value.x - 1.0 : RX_FMA_T(minus_one, cosine, -2.0 * half_sine * half_sine);
    return rx_select_C(z.y == 0.0, (T2)(minus_one, z.y), (T2)(real, value.y));
}

static inline T2 rx_exponential_minus_one_fast_C(T2 z) {
    return rx_exponential_minus_one_of_C(z, rx_sine_fast_T(0.5 * z.y), rx_sine_fast_T(z.y), rx_cosine_fast_T(z.y));
}

static inline T2 rx_exponential_minus_one_C(T2 z) {
    return rx_exponential_minus_one_of_C(z, rx_sine_T(0.5 * z.y), rx_sine_T(z.y), rx_cosine_T(z.y));
}

// log |z|, near |z| = 1 by log-plus-one of |z|^2 - 1, whose leading term has no rounding error.
static inline T rx_log_abs_C(T2 z) {
    T a = RX_FABS_T(z.x), b = RX_FABS_T(z.y);
    T greater = rx_greater_T(a, b), less = a == greater ? b : a;
    T beyond = RX_FMA_T(greater - 1.0, greater + 1.0, less * less);
    T near = 0.5 * rx_log_plus_one_T(beyond);
    BITS_T n = rx_exponent_C(z);
    T c = rx_scale_T(z.x, -n), d = rx_scale_T(z.y, -n);
    T far = RX_FMA_T((T)n, K(ln2_high), 0.5 * rx_log_T(RX_FMA_T(c, c, d * d)));
    int infinite = (a == INFINITY_T) | (b == INFINITY_T);
    return infinite ? INFINITY_T : ((greater > 0.5) & (beyond < 2.0) & (beyond > -0.5)) ? near : far;
}

static inline T2 rx_log_C(T2 z) {
    return (T2)(rx_log_abs_C(z), rx_atan2_T(z.y, z.x));
}

static inline T2 rx_log2_C(T2 z) {
    T2 value = rx_log_C(z);
    return (T2)(K(log2_e) * value.x, K(log2_e) * value.y);
}

// log |1 + z| is half of log-plus-one of a (2 + a) + b^2 where z is small.
static inline T2 rx_log_plus_one_C(T2 z) {
    T a = z.x, b = z.y;
    int small = RX_FABS_T(a) + RX_FABS_T(b) < 0.5;
    T near = 0.5 * rx_log_plus_one_T(RX_FMA_T(a, 2.0 + a, b * b));
    T far = rx_log_abs_C((T2)(1.0 + a, b));
    return (T2)(small ? near : far, rx_atan2_T(b, 1.0 + a));
}

// The root of a number scaled by an even power of two: with t = sqrt((|a| + |z|) / 2), (t, b / 2t) or (|b| / 2t, +-t).
static inline T2 rx_sqrt_C(T2 z) {
    BITS_T n = rx_exponent_C(z) & ~(BITS_T)1;
    T a = rx_scale_T(z.x, -n), b = rx_scale_T(z.y, -n);
    T size = RX_SQRT_T(RX_FMA_T(a, a, b * b));
    T t = RX_SQRT_T(0.5 * (RX_FABS_T(a) + size));
    T u = 0.5 * RX_FABS_T(b) / (t == 0.0 ? 1.0 : t);
    T real = rx_scale_T(a < 0.0 ? u : t, n >> 1);
    T imag = rx_scale_T(a < 0.0 ? t : u, n >> 1);
    // An infinite part decides, the imaginary one first.
    int tall = RX_FABS_T(z.y) == INFINITY_T;
    real = tall ? INFINITY_T : z.x == INFINITY_T ? z.x : z.x == -INFINITY_T ? (z.y == z.y ? 0.0 : z.y) : real;
    imag = (tall | (z.x == -INFINITY_T)) ? INFINITY_T : z.x == INFINITY_T ? (z.y == z.y ? 0.0 : z.y) : imag;
    return (T2)(real, rx_signed_T(imag, z.y));
}

static inline T2 rx_rsqrt_C(T2 z) {
    return rx_divide_C((T2)(1.0, 0.0), rx_sqrt_C(z));
}

static inline int rx_sine_beyond_fast_C(T2 z) {
    return rx_is_large_angle_T(z.x);
}

// sin(a + ib) = sin a cosh b + i cos a sinh b; large |b| by e^|b| / 2, which may overflow where the product does not.
static inline T2 rx_sine_of_C(T2 z, T s, T c) {
    T size = RX_FABS_T(z.y);
    T2 large = rx_scaled_exp_times_C(size, -1, s, RX_COPYSIGN_T(1.0, z.y) * c);
    T2 value = rx_select_C(size > 20.0, large, (T2)(s * rx_cosh_T(z.y), c * rx_sinh_T(z.y)));
    T imag = ((z.y == 0.0) | (size == INFINITY_T)) ? (c == c ? z.y * c : z.y) : value.y;
    return (T2)(z.x == 0.0 ? z.x : value.x, imag);
}

static inline T2 rx_sine_fast_C(T2 z) {
    return rx_sine_of_C(z, rx_sine_fast_T(z.x), rx_cosine_fast_T(z.x));
}

static inline T2 rx_sine_C(T2 z) {
    return rx_sine_of_C(z, rx_sine_T(z.x), rx_cosine_T(z.x));
}

static inline int rx_cosine_beyond_fast_C(T2 z) {
    return rx_is_large_angle_T(z.x);
}

// cos(a + ib) = cos a cosh b - i sin a sinh b
static inline T2 rx_cosine_of_C(T2 z, T s, T c) {
    T size = RX_FABS_T(z.y);
    T2 large = rx_scaled_exp_times_C(size, -1, c, RX_COPYSIGN_T(1.0, z.y) * -s);
    T2 value = rx_select_C(size > 20.0, large, (T2)(c * rx_cosh_T(z.y), -s * rx_sinh_T(z.y)));
    T imag = z.x == 0.0 ? -z.x * RX_COPYSIGN_T(1.0, z.y) : z.y == 0.0 ? (s == s ? -s * z.y : z.y) : value.y;
    return (T2)(((size == INFINITY_T) & (c != c)) ? size : value.x, imag);
}

static inline T2 rx_cosine_fast_C(T2 z) {
    return rx_cosine_of_C(z, rx_sine_fast_T(z.x), rx_cosine_fast_T(z.x));
}

static inline T2 rx_cosine_C(T2 z) {
    return rx_cosine_of_C(z, rx_sine_T(z.x), rx_cosine_T(z.x));
}

static inline int rx_tanh_beyond_fast_C(T2 z) {
    return rx_is_large_angle_T(z.y);
}

// With t = tan b, s = sinh a, r = cosh a, q = 1 + t^2: (q r s + i t) / (1 + q s^2), which has no cancellation.
static inline T2 rx_tanh_of_C(T2 z, T sine, T cosine) {
    T s = rx_sinh_T(z.x), r = rx_cosh_T(z.x);
    T below = RX_FMA_T(cosine, cosine, s * s);
    T2 value = (T2)(r * s / below, sine * cosine / below);
    // From |a| = 22 on the real part is 1 and the imaginary part 4 sin b cos b e^(-2 |a|).
    T2 tail = rx_exp_times_C(-2.0 * RX_FABS_T(z.x), 0.0, 4.0 * sine * cosine);
    int endless = RX_FABS_T(z.x) == INFINITY_T;
    T one = (endless | rx_is_finite_T(z.y)) ? RX_COPYSIGN_T(1.0, z.x) : NAN_T;
    value = rx_select_C(RX_FABS_T(z.x) > 22.0, (T2)(one, endless ? rx_signed_T(0.0, tail.y) : tail.y), value);
    value = (T2)(z.x == 0.0 ? z.x : value.x, value.y);
    return rx_select_C(z.y == 0.0, (T2)(rx_tanh_T(z.x), z.y), value);
}

static inline T2 rx_tanh_fast_C(T2 z) {
    return rx_tanh_of_C(z, rx_sine_fast_T(z.y), rx_cosine_fast_T(z.y));
}

static inline T2 rx_tanh_C(T2 z) {
    return rx_tanh_of_C(z, rx_sine_T(z.y), rx_cosine_T(z.y));
}

// (1 + tanh(z / 2)) / 2, which is accurate near the poles; e^z times that of -z where Re z is negative. Both parts are NaN
// where one of the tangent's is: at Re z = 0 or Im z = 0 the other one is 0.
static inline T2 rx_logistic_C(T2 z) {
    int negative = z.x < 0.0;
    T scale = negative ? -0.5 : 0.5;
    T2 tangent = rx_tanh_C((T2)(scale * z.x, scale * z.y));
    int known = (tangent.x == tangent.x) & (tangent.y == tangent.y);
    T2 value = (T2)(known ? 0.5 + 0.5 * tangent.x : NAN_T, known ? 0.5 * tangent.y : NAN_T);
    T2 mirrored = rx_multiply_C(rx_exponential_C(z), value);
    return rx_select_C(negative, mirrored, value);
}

// tan(z) = -i tanh(iz)
static inline T2 rx_tan_C(T2 z) {
    T2 value = rx_tanh_C((T2)(-z.y, z.x));
    return (T2)(value.y, -value.x);
}

static inline int rx_tan_beyond_fast_C(T2 z) {
    return rx_is_large_angle_T(z.x);
}

static inline T2 rx_tan_fast_C(T2 z) {
    T2 value = rx_tanh_fast_C((T2)(-z.y, z.x));
    return (T2)(value.y, -value.x);
}

// Whether the angle of the power below may be large: where a is not far from 1, |log |a|| is less than BIAS_T / 4.
static inline int rx_power_beyond_fast_C(T2 a, T2 b) {
    int far = rx_far_from_one_T(a.x) | rx_far_from_one_T(a.y);
    return far | rx_is_large_angle_T(8.0 * b.x) | rx_is_large_angle_T((T)(BIAS_T / 2) * b.y);
}

// e^(b log a), which is `value`, with 1 for b = 0, and 0 for a = 0 and a positive real b.
static inline T2 rx_power_of_C(T2 a, T2 b, T2 value) {
    int zero = (a.x == 0.0) & (a.y == 0.0);
    T ending = ((b.x > 0.0) & (b.y == 0.0)) ? 0.0 : NAN_T;
    value = rx_select_C(zero, (T2)(ending, 0.0), value);
    return rx_select_C((b.x == 0.0) & (b.y == 0.0), (T2)(1.0, 0.0), value);
}

static inline T2 rx_power_fast_C(T2 a, T2 b) {
    return rx_power_of_C(a, b, rx_exponential_fast_C(rx_multiply_C(b, rx_log_C(a))));
}

static inline T2 rx_power_C(T2 a, T2 b) {
    return rx_power_of_C(a, b, rx_exponential_C(rx_multiply_C(b, rx_log_C(a))));
}

// sinh(z) = -i sin(iz)
static inline T2 rx_sinh_C(T2 z) {
    T2 value = rx_sine_C((T2)(-z.y, z.x));
    return (T2)(value.y, -value.x);
}

static inline int rx_sinh_beyond_fast_C(T2 z) {
    return rx_is_large_angle_T(z.y);
}

static inline T2 rx_sinh_fast_C(T2 z) {
    T2 value = rx_sine_fast_C((T2)(-z.y, z.x));
    return (T2)(value.y, -value.x);
}

// cosh(z) = cos(iz)
static inline T2 rx_cosh_C(T2 z) {
    return rx_cosine_C((T2)(-z.y, z.x));
}

static inline int rx_cosh_beyond_fast_C(T2 z) {
    return rx_is_large_angle_T(z.y);
}

static inline T2 rx_cosh_fast_C(T2 z) {
    return rx_cosine_fast_C((T2)(-z.y, z.x));
}

// The inverse functions by W. Kahan's formulas, in the roots of 1 - z and 1 + z: each product below is a sum of two
// terms of one sign. From 1 / epsilon on both roots are that of z, and the logarithm of |2 z| is left.
static inline T rx_log_double_abs_C(T2 z) {
    return rx_log_abs_C(z) + K(ln2_high);
}

static inline T2 rx_asin_C(T2 z) {
    T2 below = rx_sqrt_C((T2)(1.0 - z.x, -z.y)), above = rx_sqrt_C((T2)(1.0 + z.x, z.y));
    int large = rx_greater_T(z.x, z.y) > K(inverse_epsilon);
    int small = (RX_FABS_T(z.x) < 0x1p-30) & (RX_FABS_T(z.y) < 0x1p-30);
    T across = large ? RX_FABS_T(z.y) : below.x * above.x - below.y * above.y;
    T height = large ? rx_log_double_abs_C(z) : rx_asinh_T(below.x * above.y - below.y * above.x);
    T real = z.x == 0.0 ? z.x : rx_atan2_T(z.x, across);
    return rx_select_C(small, z, (T2)(real, rx_signed_T(height, z.y)));
}

static inline T2 rx_acos_C(T2 z) {
    T2 below = rx_sqrt_C((T2)(1.0 - z.x, -z.y)), above = rx_sqrt_C((T2)(1.0 + z.x, z.y));
    int large = rx_greater_T(z.x, z.y) > K(inverse_epsilon);
    T height = large ? rx_log_double_abs_C(z) : rx_asinh_T(above.x * below.y - above.y * below.x);
    T real = large ? rx_atan2_T(RX_FABS_T(z.y), z.x) : 2.0 * rx_atan2_T(below.x, above.x);
    real = z.x == 0.0 ? K(pi_2_high) : real;
    return (T2)(real, rx_signed_T(height, -z.y));
}

// asinh(z) = -i asin(iz)
static inline T2 rx_asinh_C(T2 z) {
    T2 value = rx_asin_C((T2)(-z.y, z.x));
    return (T2)(value.y, -value.x);
}

// acosh(z) = i acos(z) or -i acos(z), that of the two whose real part is not negative.
static inline T2 rx_acosh_C(T2 z) {
    T2 value = rx_acos_C(z);
    return (T2)(RX_FABS_T(value.y), rx_signed_T(value.x, z.y));
}

// log((1 + z) / (1 - z)) / 2: |1 + z|^2 / |1 - z|^2 is 1 + 4 a / ((1 - a)^2 + b^2), where b^2 vanishes only beside a
// distance of a from 1; and where that is 0, what is left is log(2 / b) / 2.
static inline T2 rx_atanh_C(T2 z) {
    T a = RX_FABS_T(z.x), b = RX_FABS_T(z.y);
    T near = 1.0 - a;
    T quarter = 0.25 * rx_log_plus_one_T(4.0 * a / RX_FMA_T(near, near, b * b));
    T real = ((near == 0.0) & (b < 0x1p-30)) ? 0.5 * (K(ln2_high) - rx_log_T(b)) : quarter;
    T imag = 0.5 * rx_atan2_T(2.0 * b, RX_FMA_T(near, 1.0 + a, -b * b));
    // From 1 / epsilon on it is 1 / z, beside i pi/2.
    T greater = rx_greater_T(a, b);
    int large = greater > K(inverse_epsilon);
    T c = a / greater, d = b / greater;
    T far = greater == INFINITY_T ? 0.0 : c / RX_FMA_T(c, c, d * d) / greater;
    real = z.x == 0.0 ? 0.0 : large ? far : real;
    int is_turned = (b == b) & ((a == a) | (b == INFINITY_T));  // beside an infinite part, the other may be NaN
    imag = large ? (is_turned ? K(pi_2_high) : a + b) : imag;
    return (T2)(rx_signed_T(real, z.x), rx_signed_T(imag, z.y));
}

//! T = f32

// A complex number in memory of which a loop reads one part alone; the other part is 0. Loads of every second number
// leave a gap after the last one: clang would compute the last elements one by one, which are all where vectors cover
// the whole loop.
static inline T2 rx_load_real_C(__global const T2* z) {
    typedef ulong both __attribute__((may_alias));
    return (T2)(as_T((UBITS_T) * (__global const both*)z), 0.0);
}

static inline T2 rx_load_imag_C(__global const T2* z) {
    typedef ulong both __attribute__((may_alias));
    return (T2)(0.0, as_T((UBITS_T)(*(__global const both*)z >> 32)));
}

// The exponential and its relatives. x = n log 2 + r with |r| <= log(2) / 2, and e^r by a polynomial; what a rounding
// on the way loses is carried along in a second, low part, so that the result is rounded about once.

//! T = f32 f64

static inline T rx_power_of_two_T(BITS_T n) {
    return as_T((UBITS_T)(n + BIAS_T) << MANTISSA_T);
}

// x 2^n, rounded once even where it is subnormal, for -2 BIAS < n < 2 BIAS and 2^-1 < |x| < 2.
static inline T rx_scale_T(T x, BITS_T n) {
    BITS_T halved = n >> 1;
    return x * rx_power_of_two_T(halved) * rx_power_of_two_T(n - halved);
}

// The r and *low of x + x_low = *n log 2 + r + *low, for x_low small beside x. The reduction's first step is exact.
static inline T rx_exp_reduce_T(T x, T x_low, BITS_T* n, T* low) {
    T shifted = RX_FMA_T(x, K(log2_e), ROUND_T);
    T whole = shifted - ROUND_T;
    T high = RX_FMA_T(-whole, K(ln2_high), x);
    T rest = RX_FMA_T(-whole, K(ln2_low), x_low);
    T r = high + rest;
    *n = as_BITS_T(shifted) - as_BITS_T(ROUND_T);
    *low = (high - r) + rest;
    return r;
}

// e^r - 1 - r for the r and low of above.
static inline T rx_exp_tail_T(T r, T low) {
    return RX_FMA_T(r * r, POLY(exp, r), RX_FMA_T(low, r, low));
}

// e^(x + x_low) = 2^*n (result + *low), for x_low small beside x and x between exp_underflow and exp_overflow.
static inline T rx_exp_parts_T(T x, T x_low, BITS_T* n, T* low) {
    T r_low;
    T r = rx_exp_reduce_T(x, x_low, n, &r_low);
    T high = 1.0 + r;
    *low = ((1.0 - high) + r) + rx_exp_tail_T(r, r_low);
    return high;
}

// e^x = result * *scale * 2^-k for exp_zero <= x <= exp_overflow, where `round` is ROUND_T + BIAS_T + k with an even
// BIAS_T + k: then the integer nearest to x / log 2 is the same for all k, and the lowest bits of x / log 2 + round are the
// exponent of *scale. No low parts: 1 + (r + ...) rounds once more. A NaN stays one.
static inline T rx_exp_power_T(T x, T round, T* scale) {
    T shifted = RX_FMA_T(x, K(log2_e), round);
    T whole = shifted - round;
    T r = RX_FMA_T(-whole, K(ln2_low), RX_FMA_T(-whole, K(ln2_high), x));
    *scale = as_T(as_UBITS_T(shifted) << MANTISSA_T);
    return 1.0 + RX_FMA_T(r * r, POLY(exp, r), r);
}

// x * scale, which is subnormal where x < least = TINY_T / scale; `least` is 0 where no product is. Where a processor takes
// a hundred times as long for products that are subnormal, a sum rounds in their place, which does not: x + least has its
// last bit where the product would, and the bits of (x + least) * scale exceed those of TINY_T by the result's. (Four
// times as long, as some take, is less than this costs all other exponentials.)
static inline T rx_exp_unscale_T(T x, T scale, T least) {
#ifdef RX_SLOW_SUBNORMALS
    int below = x < least;
    T product = (below ? x + least : x) * scale;
    return below ? as_T(as_BITS_T(product) - as_BITS_T(TINY_T)) : product;
#else
    return x * scale;
#endif
}

// e^x for exp_zero <= x <= exp_overflow. The product with the scale is exact, by a k that keeps it away from both ends
// of the exponents: what the second product rounds is a subnormal result, or one too large. At exp_zero the scale is 0,
// and no product underflows, which would take a processor many times as long.
static inline T rx_exp_bounded_T(T x) {
    int negative = as_BITS_T(x) < 0;
    T scale;
    T power = rx_exp_power_T(x, negative ? K(exp_round_negative) : K(exp_round_positive), &scale);
    T least = negative ? TINY_T / K(exp_scale_negative) : 0.0;
    return rx_exp_unscale_T(power * scale, negative ? K(exp_scale_negative) : K(exp_scale_positive), least);
}

// The same, for an x from 0 on.
static inline T rx_exp_above_T(T x) {
    T scale;
    T power = rx_exp_power_T(x, K(exp_round_positive), &scale);
    return power * scale * K(exp_scale_positive);
}

static inline T rx_exponential_T(T x) {
    T bounded = x < K(exp_zero) ? K(exp_zero) : x;
    bounded = bounded > K(exp_overflow) ? K(exp_overflow) : bounded;
    return rx_exp_bounded_T(bounded);
}

// The same, for an x that is not above 0 (sign_analysis.py).
static inline T rx_exponential_below_T(T x) {
    T scale;
    T bounded = x < K(exp_zero) ? K(exp_zero) : x;
    T power = rx_exp_power_T(bounded, K(exp_round_negative), &scale);
    return rx_exp_unscale_T(power * scale, K(exp_scale_negative), TINY_T / K(exp_scale_negative));
}

// 2^x = 2^*n result, for x between exp2_underflow and exp2_overflow: x = n + r exactly, and 2^r = e^(r log 2).
static inline T rx_exp2_parts_T(T x, BITS_T* n) {
    T shifted = x + ROUND_T;
    T r = x - (shifted - ROUND_T);
    *n = as_BITS_T(shifted) - as_BITS_T(ROUND_T);
    T y = r * K(ln2_high);
    T y_low = RX_FMA_T(r, K(ln2_high), -y) + r * K(ln2_low);
    T high = 1.0 + y;
    return high + (((1.0 - high) + y) + rx_exp_tail_T(y, y_low));
}

static inline T rx_exp2_T(T x) {
    T bounded = x < K(exp2_underflow) ? K(exp2_underflow) : x;
    bounded = bounded > K(exp2_overflow) ? K(exp2_overflow) : bounded;
    BITS_T n;
    T power = rx_exp2_parts_T(bounded, &n);
    return rx_scale_T(power, n);
}

// e^x - 1 = result + *low, for x above expm1_underflow and e^x below 2^BIAS 1.4.
static inline T rx_expm1_parts_T(T x, BITS_T* n, T* low) {
    T r_low;
    T r = rx_exp_reduce_T(x, 0.0, n, &r_low);
    T scale = rx_power_of_two_T(*n > BIAS_T ? BIAS_T : *n);
    T whole = scale - 1.0;
    T rest = scale >= 1.0 ? (scale - whole) - 1.0 : scale - (whole + 1.0);
    T high = RX_FMA_T(scale, r, whole);
    *low = RX_FMA_T(scale, r, whole - high) + RX_FMA_T(scale, rx_exp_tail_T(r, r_low), rest);
    return high;
}

static inline T rx_exponential_minus_one_T(T x) {
    T bounded = x > K(exp_overflow) ? K(exp_overflow) : x < K(expm1_underflow) ? K(expm1_underflow) : x;
    BITS_T n;
    T low;
    T high = rx_expm1_parts_T(bounded, &n, &low);
    T result = (high + low) * (n > BIAS_T ? 2.0 : 1.0);
    return x == 0.0 ? x : result;
}

// 1 / (1 + e^-x), as e^x / (1 + e^x) where x is negative, so that small results keep their precision.
static inline T rx_logistic_T(T x) {
    T magnitude = -RX_FABS_T(x);
    T bounded = magnitude < K(exp_underflow) ? K(exp_underflow) : magnitude;
    BITS_T n;
    T low;
    T sum = rx_exp_parts_T(bounded, 0.0, &n, &low);
    T high = sum + low;
    low = (sum - high) + low;
    T scale = rx_power_of_two_T(n < -(BIAS_T / 2) ? -(BIAS_T / 2) : n);
    T denominator = RX_FMA_T(scale, high, 1.0);
    T denominator_low = RX_FMA_T(scale, high, 1.0 - denominator) + scale * low;
    int negative = x < 0.0;
    T numerator = negative ? high : 1.0;
    T numerator_low = negative ? low : 0.0;
    T inverse = 1.0 / denominator;
    T quotient = numerator * inverse;
    T rest = RX_FMA_T(-quotient, denominator, numerator) + RX_FMA_T(-quotient, denominator_low, numerator_low);
    return rx_scale_T(RX_FMA_T(rest, inverse, quotient), negative ? n : 0);
}

// Hyperbolic functions and their inverses, from the parts of the exponential and from log-plus-one.

//! T = f32 f64

// 1 - 2 / (e^(2|x|) + 1), which loses precision below 1, and a polynomial there.
static inline T rx_tanh_T(T x) {
    T a = RX_FABS_T(x);
    T square = a * a;
    T small = RX_FMA_T(a * square, POLY(tanh, square), a);
    T bounded = a > K(tanh_one) ? K(tanh_one) : a;
    T large = 1.0 - 2.0 / (1.0 + rx_exp_above_T(2.0 * bounded));
    return RX_COPYSIGN_T(a >= 1.0 ? large : small, x);
}

// (e^|x| + e^-|x|) / 2, each half scaled by itself, so that nothing overflows before the result does.
static inline T rx_cosh_T(T x) {
    T magnitude = RX_FABS_T(x);
    T bounded = magnitude > K(cosh_overflow) ? K(cosh_overflow) : magnitude;
    BITS_T n;
    T low;
    T high = rx_exp_parts_T(bounded, 0.0, &n, &low);
    T power = high + low;
    return rx_scale_T(power, n - 1) + rx_scale_T(1.0 / power, -n - 1);
}

// The same with a minus sign, and a polynomial where the two halves cancel.
static inline T rx_sinh_T(T x) {
    T magnitude = RX_FABS_T(x);
    T bounded = magnitude > K(cosh_overflow) ? K(cosh_overflow) : magnitude;
    BITS_T n;
    T low;
    T high = rx_exp_parts_T(bounded, 0.0, &n, &low);
    T power = high + low;
    T large = rx_scale_T(power, n - 1) - rx_scale_T(1.0 / power, -n - 1);
    T square = bounded * bounded;
    T small = RX_FMA_T(bounded * square, POLY(sinh, square), bounded);
    return RX_COPYSIGN_T(magnitude < 0.5 ? small : large, x);
}

// log(|x| + sqrt(x^2 + 1)); from 1 / epsilon on that is log(2 |x|).
static inline T rx_asinh_T(T x) {
    T a = RX_FABS_T(x);
    int large = a > K(inverse_epsilon);
    T square = large ? 0.0 : a * a;
    T result = rx_log_plus_one_T(a + square / (1.0 + RX_SQRT_T(1.0 + square)));
    return RX_COPYSIGN_T(large ? result + K(ln2_high) : result, x);
}

static inline T rx_acosh_T(T x) {
    int large = x > K(inverse_epsilon);
    T t = x - 1.0;
    T bounded = large ? 0.0 : t;
    T result = rx_log_plus_one_T(t + RX_SQRT_T(bounded * (2.0 + bounded)));
    return x < 1.0 ? NAN_T : large ? result + K(ln2_high) : result;
}

static inline T rx_atanh_T(T x) {
    T a = RX_FABS_T(x);
    return RX_COPYSIGN_T(0.5 * rx_log_plus_one_T(2.0 * a / (1.0 - a)), x);
}

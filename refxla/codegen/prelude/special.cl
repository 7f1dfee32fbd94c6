// The error function.

//! T = f32 f64

// A polynomial up to 1; from there to where it rounds to 1, 1 - e^p with p a polynomial for log(erfc).
static inline T rx_erf_T(T x) {
    T a = RX_FABS_T(x);
    T z = a < 1.0 ? a * a : 1.0;
    T small = RX_FMA_T(x, POLY(erf, z), x);
    T t = (a > K(erf_limit) ? K(erf_limit) : a) - K(erf_centre);
    T scale;  // the exponential's, whose argument lies between log(erfc(erf_limit)) and log(erfc(1)): nothing underflows
    T power = rx_exp_power_T(POLY(erf_tail, t), K(exp_round_negative), &scale);
    T large = 1.0 - power * scale * K(exp_scale_negative);
    return a < 1.0 ? small : RX_COPYSIGN_T(large, x);
}

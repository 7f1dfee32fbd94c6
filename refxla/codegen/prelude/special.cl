// The error function.

//! T = f32 f64

// A polynomial up to 1; from there to where it rounds to 1, 1 - p^4 with p a polynomial for the fourth root of erfc,
// which is much flatter than erfc: few terms are enough, and no exponential is needed.
static inline T rx_erf_T(T x) {
    T a = RX_FABS_T(x);
    T z = a < 1.0 ? a * a : 1.0;
    T small = RX_FMA_T(x, POLY(erf, z), x);
    T t = (a > K(erf_limit) ? K(erf_limit) : a) - K(erf_centre);
    T root = POLY(erf_tail, t);
    T square = root * root;
    T large = 1.0 - square * square;
    return a < 1.0 ? small : RX_COPYSIGN_T(large, x);
}

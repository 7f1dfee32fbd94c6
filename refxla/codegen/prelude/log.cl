// Logarithms. x = 2^k m with m between sqrt(1/2) and sqrt(2), and log(m) by a polynomial in m - 1, which is exact.

//! T = f32 f64

// m and *k, for a finite x > 0.
static inline T rx_log_split_T(T x, BITS_T* k) {
    int subnormal = x < TINY_T;
    T scaled = subnormal ? x * 0x1p54 : x;
    BITS_T bits = as_BITS_T(scaled) - as_BITS_T(K(sqrt_half));
    *k = (bits >> MANTISSA_T) - (subnormal ? 54 : 0);
    return as_T((bits & (((BITS_T)1 << MANTISSA_T) - 1)) + as_BITS_T(K(sqrt_half)));
}

// log(2^k (1 + f + f_low)), for f_low small beside f.
static inline T rx_log_sum_T(T f, T f_low, BITS_T k) {
    T n = (T)k;
    T high = RX_FMA_T(n, K(ln2_high), f);
    T low = (RX_FMA_T(n, K(ln2_high), -high) + f) + RX_FMA_T(n, K(ln2_low), f_low);
    return high + RX_FMA_T(f * f, POLY(log, f), low);
}

static inline T rx_log_T(T x) {
    BITS_T k;
    T m = rx_log_split_T(x, &k);
    T result = rx_log_sum_T(m - 1.0, 0.0, k);
    T special = x == 0.0 ? -INFINITY_T : x > 0.0 ? x : NAN_T;
    return ((x > 0.0) & (x < INFINITY_T)) ? result : special;
}

// k + log(m) / log(2); the product with 1 / log(2) has a low part, and k is added last, so that it is exact of powers of 2.
static inline T rx_log2_T(T x) {
    BITS_T k;
    T f = rx_log_split_T(x, &k) - 1.0;
    T tail = f * f * POLY(log, f);
    T part = f * K(log2_e);
    T part_low = RX_FMA_T(f, K(log2_e), -part) + RX_FMA_T(f, K(log2_e_low), tail * K(log2_e));
    T n = (T)k;
    T high = n + part;
    T result = high + (((n - high) + part) + part_low);
    T special = x == 0.0 ? -INFINITY_T : x > 0.0 ? x : NAN_T;
    return ((x > 0.0) & (x < INFINITY_T)) ? result : special;
}

// 1 + x is rounded; what the rounding drops is added to m - 1, scaled as m is.
static inline T rx_log_plus_one_T(T x) {
    T sum = 1.0 + x;
    T rest = x < 1.0 ? x - (sum - 1.0) : 1.0 - (sum - x);
    BITS_T k;
    T m = rx_log_split_T(sum, &k);
    T f = m - 1.0;
    T scaled = rest * rx_power_of_two_T(k < BIAS_T ? -k : -BIAS_T);
    T total = f + scaled;
    T result = rx_log_sum_T(total, (f - total) + scaled, k);
    T special = x == -1.0 ? -INFINITY_T : x > -1.0 ? x : NAN_T;
    return ((x > -1.0) & (x < INFINITY_T) & (x != 0.0)) ? result : special;
}

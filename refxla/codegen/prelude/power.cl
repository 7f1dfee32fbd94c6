// Powers and roots.

//! T = f32 f64

// log(x) = result + *low to about 1.5 times the precision of T, for a finite x > 0: log(m) is 2 atanh((m - 1) / (m + 1)),
// with products and sums of its leading terms kept in two parts.
static inline T rx_log_parts_T(T x, T* low) {
    BITS_T k;
    T m = rx_log_split_T(x, &k);
    T f = m - 1.0;
    T g = m + 1.0;
    T g_low = m - (g - 1.0);
    T inverse = 1.0 / g;
    T s = f * inverse;
    T s_low = (RX_FMA_T(-s, g, f) - s * g_low) * inverse;
    T z = s * s;
    T z_low = RX_FMA_T(s, s, -z) + 2.0 * s * s_low;
    T p = POLY(atanh, z);
    T c = RX_FMA_T(z, p, K(third_high));
    T c_low = RX_FMA_T(z, p, K(third_high) - c) + K(third_low);
    T cube = s * z;
    T cube_low = RX_FMA_T(s, z, -cube) + RX_FMA_T(s, z_low, s_low * z);
    T t = cube * c;
    T t_low = RX_FMA_T(cube, c, -t) + RX_FMA_T(cube, c_low, cube_low * c);
    T h = s + t;
    T h_low = ((s - h) + t) + (t_low + s_low);
    T n = (T)k;
    T a = n * K(ln2_high);
    T a_low = RX_FMA_T(n, K(ln2_low), RX_FMA_T(n, K(ln2_high), -a));
    T sum = RX_FMA_T(2.0, h, a);
    T rest = RX_FMA_T(2.0, h, a - sum) + RX_FMA_T(2.0, h_low, a_low);
    T result = sum + rest;
    *low = (sum - result) + rest;
    return result;
}

// As pow of the language C: 1 for an exponent of 0 and for a base of 1, even with a NaN; a negative base needs an integer
// exponent.
static inline T rx_power_T(T x, T y) {
    T a = RX_FABS_T(x);
    T low;
    T high = rx_log_parts_T(a, &low);
    high = a == 0.0 ? -INFINITY_T : a == INFINITY_T ? INFINITY_T : high;
    low = ((a == 0.0) | (a == INFINITY_T)) ? 0.0 : low;
    T product = y * high;
    T product_low = RX_FMA_T(y, high, -product) + y * low;
    int lost = product < K(exp_underflow);  // the power is 0: that of 0 is computed, for what underflows takes long
    int bounded = (product <= K(exp_overflow)) & !lost;
    T exponent = bounded ? product : product > 0.0 ? K(exp_overflow) : 0.0;
    BITS_T n;
    T tail;
    T head = rx_exp_parts_T(exponent, bounded ? product_low : 0.0, &n, &tail);
    T magnitude = a == 1.0 ? 1.0 : lost ? 0.0 : rx_scale_T(head + tail, n);
    int integer = RX_TRUNC_T(y) == y;
    int odd = integer & (RX_TRUNC_T(0.5 * y) != 0.5 * y);
    T result = ((as_BITS_T(x) < 0) & odd) ? -magnitude : magnitude;
    result = ((x < 0.0) & (x > -INFINITY_T) & !integer) ? NAN_T : result;
    result = ((x == x) & (y == y)) ? result : x + y;
    return ((y == 0.0) | (x == 1.0)) ? 1.0 : result;
}

// One step of Newton's iteration for y = 1 / cbrt(x).
static inline T rx_cbrt_step_T(T y, T x) {
    return RX_FMA_T(y * K(third_high), RX_FMA_T(-(x * y) * y, y, 1.0), y);
}

// 1 / cbrt(x) by Newton's iteration from a guess that divides the exponent by -3, then x times its square, corrected by
// what the cube of that leaves.
static inline T rx_cbrt_T(T x) {
    T a = RX_FABS_T(x);
    int subnormal = a < TINY_T;
    T scaled = subnormal ? a * 0x1p54 : a;
    uint leading = (uint)(as_UBITS_T(scaled) >> (8 * sizeof(T) - 32));
    T y = as_T((UBITS_T)((sizeof(T) == 4 ? 0x54a2fa8cu : 0x553ef0ffu) - leading / 3u) << (8 * sizeof(T) - 32));
    y = rx_cbrt_step_T(rx_cbrt_step_T(rx_cbrt_step_T(y, scaled), scaled), scaled);
    y = sizeof(T) == 4 ? y : rx_cbrt_step_T(y, scaled);
    T root = scaled * y * y;
    T square = root * root;
    T square_low = RX_FMA_T(root, root, -square);
    T rest = RX_FMA_T(-square, root, scaled) - square_low * root;
    root = RX_FMA_T(rest * (y * y), K(third_high), root);
    root = subnormal ? root * 0x1p-18 : root;
    return ((a > 0.0) & (a < INFINITY_T)) ? RX_COPYSIGN_T(root, x) : x;
}

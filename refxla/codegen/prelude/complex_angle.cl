// The complex atan2, with the branches of its definition: see the specification.

//! T = f32 f64

// A number with the sign of a b + c d, 0 where that is zero. The factors are taken without their exponents, so that no
// product leaves the range, and with the error of the one that is rounded.
static inline T rx_products_T(T a, T b, T c, T d) {
    BITS_T i = rx_exponent_T(a), j = rx_exponent_T(b), k = rx_exponent_T(c), l = rx_exponent_T(d);
    BITS_T n = k + l - i - j;
    n = n > 64 ? 64 : n < -64 ? -64 : n;
    T scaled = rx_scale_T(rx_scale_T(c, -k), n), other = rx_scale_T(d, -l);
    T product = scaled * other;
    return RX_FMA_T(rx_scale_T(a, -i), rx_scale_T(b, -j), product) + RX_FMA_T(scaled, other, -product);
}

// -i log(u / sqrt(u v)) with u = x + iy and v = x - iy: half the angle between u and v, and half of log |v / u|.
static inline T2 rx_atan2_C(T2 y, T2 x) {
    T tallest = rx_greater_T(rx_greater_T(x.x, x.y), rx_greater_T(y.x, y.y));
    // Near 2^30 the squares are in range, and parts that are far smaller keep their digits.
    BITS_T n = rx_is_finite_T(tallest) ? rx_exponent_T(tallest) - 30 : 0;
    T2 p = (T2)(rx_scale_T(x.x, -n), rx_scale_T(x.y, -n)), q = (T2)(rx_scale_T(y.x, -n), rx_scale_T(y.y, -n));
    // Their sums where they stand, or a quarter of those that overflow: scaled ones may vanish beside the largest.
    T2 a = (T2)(0.25 * x.x, 0.25 * x.y), b = (T2)(0.25 * y.x, 0.25 * y.y);
    T2 u = (T2)(x.x - y.y, x.y + y.x), v = (T2)(x.x + y.y, x.y - y.x);
    int u_over = (RX_FABS_T(u.x) == INFINITY_T) | (RX_FABS_T(u.y) == INFINITY_T);
    int v_over = (RX_FABS_T(v.x) == INFINITY_T) | (RX_FABS_T(v.y) == INFINITY_T);
    u = (T2)(u_over ? a.x - b.y : u.x, u_over ? a.y + b.x : u.y);
    v = (T2)(v_over ? a.x + b.y : v.x, v_over ? a.y - b.x : v.y);
    T pp = RX_FMA_T(p.x, p.x, p.y * p.y), qq = RX_FMA_T(q.x, q.x, q.y * q.y);
    T angle_u = rx_atan2_T(u.y, u.x), angle_v = rx_atan2_T(v.y, v.x);
    // Of a small quotient y / x the two angles and the two logarithms are nearly equal: products tell the difference.
    int small = 4.0 * qq < pp;
    T turned = 4.0 * RX_FMA_T(p.x, q.y, -(p.y * q.x));
    T side = turned < 0.0 ? -1.0 : 1.0, real_sum = p.x - side * q.y, imag_sum = p.y + side * q.x;  // u or v, the shorter
    T shorter = RX_FMA_T(real_sum, real_sum, imag_sum * imag_sum);
    T near = side * 0.25 * rx_log_plus_one_T(side * turned / shorter);
    BITS_T i = rx_exponent_C(u), j = rx_exponent_C(v);
    T u_log = rx_log_abs_C((T2)(rx_scale_T(u.x, -i), rx_scale_T(u.y, -i)));
    T v_log = rx_log_abs_C((T2)(rx_scale_T(v.x, -j), rx_scale_T(v.y, -j)));
    T imag = small ? near : 0.5 * RX_FMA_T((T)(j - i + (v_over ? 2 : 0) - (u_over ? 2 : 0)), K(ln2_high), v_log - u_log);
    T real = small ? 0.5 * rx_atan2_T(2.0 * RX_FMA_T(p.x, q.x, p.y * q.y), pp - qq) : 0.5 * (angle_u - angle_v);
    // The principal angle of u v, which is halved by the square root: close to +-pi its sign decides.
    T angle = angle_u + angle_v, pi = 2.0 * K(pi_2_high);
    T turning = rx_products_T(x.x, x.y, y.x, y.y);  // Im(x^2 + y^2) / 2
    int zeros_fall = ((as_BITS_T(x.x) ^ as_BITS_T(x.y)) & (as_BITS_T(y.x) ^ as_BITS_T(y.y))) < 0;
    int falls = turning == 0.0 ? zeros_fall : turning < 0.0;
    int over = (angle > 1.5 * pi) | ((angle > 0.5 * pi) & falls);
    int under = (angle < -1.5 * pi) | ((angle < -0.5 * pi) & !falls);
    angle = over ? angle - 2.0 * pi : under ? angle + 2.0 * pi : angle;
    // The angle of the quotient, roughly, tells by how many pi the half angle is off.
    T off = angle_u - 0.5 * angle - real;
    T turns = RX_RINT_T(off / pi);
    turns = turns > 1.0 ? turns - 2.0 : turns < -1.0 ? turns + 2.0 : turns;
    turns = ((turns > 0.0) & (real > 0.0)) | ((turns < 0.0) & (real < 0.0)) ? -turns : turns;
    real = turns == 0.0 ? real : turns * pi + (real + turns * 2.0 * K(pi_2_middle));
    // Close to +-pi the sign is that of the smaller angle, which may have been lost.
    T ahead = rx_products_T(x.x, y.x, x.y, y.y);
    real = ((RX_FABS_T(real) > 3.0) & (ahead != 0.0)) ? RX_COPYSIGN_T(real, -ahead) : real;
    int bad = !(rx_is_finite_T(x.x) & rx_is_finite_T(x.y) & rx_is_finite_T(y.x) & rx_is_finite_T(y.y));
    bad |= ((u.x == 0.0) & (u.y == 0.0)) | ((v.x == 0.0) & (v.y == 0.0));
    return bad ? (T2)(NAN_T, NAN_T) : (T2)(real, imag);
}

// Trigonometric functions. x = n pi/2 + r, by three parts of pi/2 where n is moderate and by the bits of 2/pi that
// matter where it is not; the low part of r is kept. A loop asks once for many x whether any is beyond trig_limit
// (fast_path_math.py): if none is, it calls the functions named fast. In f32 angles are often larger, as seconds of a
// sound or places in a text are. Up to far_limit they are reduced by three parts, too, with the error of each product and
// difference: so all x of a loop are then. Those that are still larger are computed one by one afterwards, by the
// functions named apart.

//! T = f32

// The reduction for |x| >= 2^9: *r + *low = x - n pi/2, and n modulo 4. x is an integer m of 24 bits times a power of
// two, so those bits of 2/pi whose product with it is a multiple of 4 are left out, and 96 bits after them decide.
static inline int rx_trig_reduce_large_f32(float x, float* r, float* low) {
    const uint t0 = 0u, t1 = 0xa2f9836eu, t2 = 0x4e441529u, t3 = 0xfc2757d1u;
    const uint t4 = 0xf534ddc0u, t5 = 0xdb629599u, t6 = 0x3c439041u, t7 = 0xfe5163abu;
    uint bits = as_uint(x) & 0x7fffffffu;
    uint position = (bits >> 23) - 120u;
    uint shift = position & 31u;
    // The words from number position / 32 on, by the bits of that number, which is at most 4. (A chain of comparisons
    // with 0, 1, 2, ... becomes a switch in LLVM, and a loop with a switch is not vectorised.)
    int bit0 = (position & 32u) != 0, bit1 = (position & 64u) != 0, bit2 = (position & 128u) != 0;
    uint u0 = bit0 ? t1 : t0, u1 = bit0 ? t2 : t1, u2 = bit0 ? t3 : t2;
    uint u3 = bit0 ? t4 : t3, u4 = bit0 ? t5 : t4, u5 = bit0 ? t6 : t5;
    uint w0 = bit2 ? t4 : bit1 ? u2 : u0;
    uint w1 = bit2 ? t5 : bit1 ? u3 : u1;
    uint w2 = bit2 ? t6 : bit1 ? u4 : u2;
    uint w3 = bit2 ? t7 : bit1 ? u5 : u3;
    uint a0 = w0 << shift | w1 >> 1 >> (31 - shift);
    uint a1 = w1 << shift | w2 >> 1 >> (31 - shift);
    uint a2 = w2 << shift | w3 >> 1 >> (31 - shift);
    uint m = (bits & 0x7fffffu) | 0x800000u;
    uint below = a1 * m;
    uint product_low = below + rx_mulhi_u32(a2, m);
    uint product = a0 * m + rx_mulhi_u32(a1, m) + (product_low < below ? 1u : 0u);
    // Two bits of quadrant, then the fraction of one: split into floats that hold their bits exactly.
    uint quadrant = (product + 0x20000000u) >> 30;
    int fraction = (int)(product - (quadrant << 30));
    float top = (float)(fraction & ~0xff) * 0x1p-30;
    float middle = (float)(int)((uint)(fraction & 0xff) << 16 | product_low >> 16) * 0x1p-46;
    float bottom = (float)(int)(product_low & 0xffffu) * 0x1p-62;
    // top and middle may cancel; what their sum drops is added to the bottom.
    float upper = top + middle;
    float dropped = ((top - upper) + middle) + bottom;
    float head = upper + dropped;
    float tail = (upper - head) + dropped;
    float high = head * K(pi_2_high);
    float rest = RX_FMA_F32(head, K(pi_2_high), -high) + RX_FMA_F32(head, K(pi_2_middle), tail * K(pi_2_high));
    float sum = high + rest;
    float error = (high - sum) + rest;
    int negative = x < 0.0;
    *r = negative ? -sum : sum;
    *low = negative ? -error : error;
    return negative ? -(int)quadrant : (int)quadrant;
}

// The reduction for trig_limit < |x| <= far_limit. The first difference is exact, as are the sums of the product and its
// error, and of the second difference and its own.
static inline int rx_trig_reduce_far_f32(float x, float* r, float* low) {
    float shifted = RX_FMA_F32(x, K(two_over_pi), ROUND_T);
    float n = shifted - ROUND_T;
    float first = RX_FMA_F32(-n, K(pi_2_high), x);
    float product = n * K(pi_2_middle);
    float product_error = RX_FMA_F32(n, K(pi_2_middle), -product);
    float second = first - product;
    float taken = first - second;
    float error = (first - (second + taken)) + (taken - product);
    *r = second;
    *low = RX_FMA_F32(-n, K(pi_2_low), error - product_error);
    return (int)as_uint(shifted);
}

// The reduction for |x| > trig_limit.
static inline int rx_trig_reduce_beyond_f32(float x, float* r, float* low) {
    int quadrant = rx_trig_reduce_far_f32(x, r, low);
    if (RX_FABS_F32(x) > K(far_limit)) quadrant = rx_trig_reduce_large_f32(x, r, low);
    return quadrant;
}

// 0 up to trig_limit, 1 up to far_limit.
static inline int rx_trig_range_f32(float x) {
    return rx_is_large_angle_f32(x) | (RX_FABS_F32(x) > K(far_limit)) << 1;
}

//! T = f64

// As for f32, with 192 bits. A zero word stands before the bits of 2/pi.
__constant ulong RX_TWO_OVER_PI[20] = {
    0x0000000000000000ul, 0xa2f9836e4e441529ul, 0xfc2757d1f534ddc0ul, 0xdb6295993c439041ul,
    0xfe5163abdebbc561ul, 0xb7246e3a424dd2e0ul, 0x06492eea09d1921cul, 0xfe1deb1cb129a73eul,
    0xe88235f52ebb4484ul, 0xe99c7026b45f7e41ul, 0x3991d639835339f4ul, 0x9c845f8bbdf9283bul,
    0x1ff897ffde05980ful, 0xef2f118b5a0a6d1ful, 0x6d367ecf27cb09b7ul, 0x4f463f669e5fea2dul,
    0x7527bac7ebe5f17bul, 0x3d0739f78a5292eaul, 0x6bfb5fb11f8d5d08ul, 0x56033046fc7b6babul,
};

static inline int rx_trig_reduce_large_f64(double x, double* r, double* low) {
    ulong bits = as_ulong(x) & ~SIGN_T;
    int position = (int)(bits >> 52) - 1013;
    position = ((bits < INF_T) & (position >= 0)) ? position : 0;
    int word = position >> 6, shift = position & 63;
    ulong t0 = RX_TWO_OVER_PI[word], t1 = RX_TWO_OVER_PI[word + 1];
    ulong t2 = RX_TWO_OVER_PI[word + 2], t3 = RX_TWO_OVER_PI[word + 3];
    ulong w0 = t0 << shift | t1 >> 1 >> (63 - shift);
    ulong w1 = t1 << shift | t2 >> 1 >> (63 - shift);
    ulong w2 = t2 << shift | t3 >> 1 >> (63 - shift);
    ulong m = (bits & 0xffffffffffffful) | 0x10000000000000ul;
    ulong middle = w1 * m;
    ulong below = middle + rx_mulhi_u64(w2, m);
    ulong product = w0 * m + rx_mulhi_u64(w1, m) + (ulong)(below < middle);
    ulong quadrant = (product + 0x2000000000000000ul) >> 62;
    long fraction = (long)(product - (quadrant << 62));
    double head = (double)fraction;
    double tail = (double)(fraction - (long)head) + (double)below * 0x1p-64;
    double whole = (head + tail) * 0x1p-62;
    double part = ((head - (head + tail)) + tail) * 0x1p-62;
    double high = whole * K(pi_2_high);
    double rest = RX_FMA_F64(whole, K(pi_2_high), -high) + RX_FMA_F64(whole, K(pi_2_middle), part * K(pi_2_high));
    double sum = high + rest;
    double error = (high - sum) + rest;
    int negative = x < 0.0;
    *r = negative ? -sum : sum;
    *low = negative ? -error : error;
    return negative ? -(int)quadrant : (int)quadrant;
}

static inline int rx_trig_reduce_beyond_f64(double x, double* r, double* low) {
    return rx_trig_reduce_large_f64(x, r, low);
}

static inline int rx_trig_range_f64(double x) {
    return rx_is_large_angle_f64(x);
}

//! T = f32 f64

static inline int rx_is_large_angle_T(T x) {
    return RX_FABS_T(x) > K(trig_limit);
}

// n modulo 4 of x = n pi/2 + *r + *low, |*r| <= pi/4, for |x| <= trig_limit. The middle part of pi/2 is so short that its
// product with n is exact: then so is the difference of the first line, and what the second one's rounding drops.
static inline int rx_trig_reduce_fast_T(T x, T* r, T* low) {
    T shifted = RX_FMA_T(x, K(two_over_pi), ROUND_T);
    T n = shifted - ROUND_T;
    T first = RX_FMA_T(-n, K(pi_2_high), x);
    T second = RX_FMA_T(-n, K(pi_2_short), first);
    *r = second;
    *low = RX_FMA_T(-n, K(pi_2_rest), RX_FMA_T(-n, K(pi_2_short), first - second));
    return (int)as_UBITS_T(shifted);
}

// The same for any x; NaN for an infinite one.
static inline int rx_trig_reduce_T(T x, T* r, T* low) {
    int quadrant = rx_trig_reduce_fast_T(x, r, low);
    if (rx_trig_range_T(x)) {
        quadrant = rx_trig_reduce_beyond_T(x, r, low);
        *r = rx_is_finite_T(x) ? *r : NAN_T;
    }
    return quadrant;
}

// sin(r + low), or cos(r + low) where `odd`, for |r| <= pi/4: r + r^3 p or 1 - r^2 / 2 + r^4 p, the sum in two parts.
static inline T rx_trig_value_T(T r, T low, int odd) {
    T z = r * r;
    T head = RX_FMA_T(-0.5, z, 1.0);
    T head_low = RX_FMA_T(-r, low, RX_FMA_T(-0.5, z, 1.0 - head));
    T sine = POLY(sin, z), cosine = POLY(cos, z);
    T tail = RX_FMA_T((odd ? z : r) * z, odd ? cosine : sine, odd ? head_low : low * head);
    return (odd ? head : r) + tail;
}

static inline int rx_shifted_sine_beyond_fast_T(T x) {
    return rx_trig_range_T(x);
}

// sin(x + quarters pi/2), for 0 or 1 quarters: the sine or the cosine.
static inline T rx_shifted_sine_of_T(T x, int n, T r, T low, int quarters) {
    n += quarters;
    T value = rx_trig_value_T(r, low, n & 1);
    return ((x == 0.0) & (quarters == 0)) ? x : (n & 2) ? -value : value;
}

static inline T rx_shifted_sine_fast_T(T x, int quarters) {
    T r, low;
    int n = rx_trig_reduce_fast_T(x, &r, &low);
    return rx_shifted_sine_of_T(x, n, r, low, quarters);
}

// The reduction for any x beyond far_limit; NaN for an infinite one.
static inline int rx_trig_reduce_apart_T(T x, T* r, T* low) {
    int quadrant = rx_trig_reduce_large_T(x, r, low);
    *r = rx_is_finite_T(x) ? *r : NAN_T;
    return quadrant;
}

static inline RX_NOINLINE T rx_shifted_sine_apart_T(T x, int quarters) {
    T r, low;
    int n = rx_trig_reduce_apart_T(x, &r, &low);
    return rx_shifted_sine_of_T(x, n, r, low, quarters);
}

static inline T rx_sine_fast_T(T x) {
    return rx_shifted_sine_fast_T(x, 0);
}

static inline T rx_sine_T(T x) {
    T r, low;
    int n = rx_trig_reduce_T(x, &r, &low);
    return rx_shifted_sine_of_T(x, n, r, low, 0);
}

static inline T rx_cosine_fast_T(T x) {
    return rx_shifted_sine_fast_T(x, 1);
}

static inline T rx_cosine_T(T x) {
    T r, low;
    int n = rx_trig_reduce_T(x, &r, &low);
    return rx_shifted_sine_of_T(x, n, r, low, 1);
}

// For a number alone, which the next may wait for: what is less than pi/4 needs no reduction, which takes a third of the
// time, and has the same bits without it. Vectors would compute both.
static inline T rx_sine_alone_T(T x) {
    return RX_FABS_T(x) <= 0.78 ? x == 0.0 ? x : rx_trig_value_T(x, 0.0, 0) : rx_shifted_sine_alone_T(x, 0);
}

static inline T rx_cosine_alone_T(T x) {
    return RX_FABS_T(x) <= 0.78 ? rx_trig_value_T(x, 0.0, 1) : rx_shifted_sine_alone_T(x, 1);
}

static inline T rx_tan_of_T(T x, int n, T r, T low) {
    T sine = rx_trig_value_T(r, low, 0), cosine = rx_trig_value_T(r, low, 1);
    T value = ((n & 1) ? -cosine : sine) / ((n & 1) ? sine : cosine);
    return x == 0.0 ? x : value;
}

static inline int rx_tan_beyond_fast_T(T x) {
    return rx_trig_range_T(x);
}

static inline T rx_tan_fast_T(T x) {
    T r, low;
    int n = rx_trig_reduce_fast_T(x, &r, &low);
    return rx_tan_of_T(x, n, r, low);
}

static inline T rx_tan_T(T x) {
    T r, low;
    int n = rx_trig_reduce_T(x, &r, &low);
    return rx_tan_of_T(x, n, r, low);
}

static inline RX_NOINLINE T rx_tan_apart_T(T x) {
    T r, low;
    int n = rx_trig_reduce_apart_T(x, &r, &low);
    return rx_tan_of_T(x, n, r, low);
}

//! T = f32 f64; library

static inline T rx_shifted_sine_alone_T(T x, int quarters) {
    T r, low;
    int n = rx_trig_reduce_T(x, &r, &low);
    return rx_shifted_sine_of_T(x, n, r, low, quarters);
}

//! T = f32

// The functions up to far_limit.

static inline int rx_trig_reduce_far_fast_T(T x, T* r, T* low) {
    T far_r, far_low;
    int n = rx_trig_reduce_fast_T(x, r, low), far_n = rx_trig_reduce_far_T(x, &far_r, &far_low);
    int far = rx_is_large_angle_T(x);
    *r = far ? far_r : *r;
    *low = far ? far_low : *low;
    return far ? far_n : n;
}

static inline T rx_shifted_sine_far_fast_T(T x, int quarters) {
    T r, low;
    int n = rx_trig_reduce_far_fast_T(x, &r, &low);
    return rx_shifted_sine_of_T(x, n, r, low, quarters);
}

static inline T rx_tan_far_fast_T(T x) {
    T r, low;
    int n = rx_trig_reduce_far_fast_T(x, &r, &low);
    return rx_tan_of_T(x, n, r, low);
}

//! T = f32 f64

// The smaller of |x| and |y| over the greater, so that the polynomial sees [0, 1]; then the octant.
static inline T rx_atan2_T(T y, T x) {
    T a = RX_FABS_T(x), b = RX_FABS_T(y);
    int steep = b > a;
    T greater = steep ? b : a;
    T smaller = steep ? a : b;
    T quotient = greater == 0.0 ? 0.0 : smaller == INFINITY_T ? 1.0 : smaller / greater;
    T z = quotient * quotient;
    T angle = RX_FMA_T(quotient * z, POLY(atan, z), quotient);
    // pi/2 -+ angle where steep, pi - angle where x is negative; the low part of pi joins the angle.
    int negative = as_BITS_T(x) < 0;
    T head = steep ? K(pi_2_high) : negative ? 2.0 * K(pi_2_high) : 0.0;
    T tail = steep ? K(pi_2_middle) : negative ? 2.0 * K(pi_2_middle) : 0.0;
    angle = head + ((steep != negative ? -angle : angle) + tail);
    return ((x == x) & (y == y)) ? RX_COPYSIGN_T(angle, y) : x + y;
}

// The same bits as of rx_atan2_T(y, 1).
static inline T rx_atan_T(T y) {
    T a = RX_FABS_T(y);
    int steep = a > 1.0;
    T quotient = (steep ? 1.0 : a) / (steep ? a : 1.0);
    T z = quotient * quotient;
    T angle = RX_FMA_T(quotient * z, POLY(atan, z), quotient);
    return RX_COPYSIGN_T(steep ? K(pi_2_high) + (K(pi_2_middle) - angle) : angle, y);
}

static inline T rx_atan2_by_constant_T(T y, T one) {
    return rx_atan_T(y);
}

// asin |x|, above 1/2 as pi/2 - 2 asin(sqrt((1 - |x|) / 2)).
static inline T rx_asin_T(T x) {
    T a = RX_FABS_T(x);
    int large = a > 0.5;
    T z = large ? 0.5 * (1.0 - a) : a * a;
    T s = large ? RX_SQRT_T(z) : a;
    T angle = RX_FMA_T(s * z, POLY(asin, z), s);
    return RX_COPYSIGN_T(large ? K(pi_2_high) - (2.0 * angle - K(pi_2_middle)) : angle, x);
}

static inline T rx_acos_T(T x) {
    T a = RX_FABS_T(x);
    int large = a > 0.5;
    T z = large ? 0.5 * (1.0 - a) : a * a;
    T s = large ? RX_SQRT_T(z) : a;
    T angle = RX_FMA_T(s * z, POLY(asin, z), s);
    T middle = K(pi_2_high) - (RX_COPYSIGN_T(angle, x) - K(pi_2_middle));
    T end = x < 0.0 ? 2.0 * K(pi_2_high) - (2.0 * angle - 2.0 * K(pi_2_middle)) : 2.0 * angle;
    return large ? end : x == x ? middle : x;
}

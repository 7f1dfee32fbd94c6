// Conversions. Narrow floating-point types live in f32 registers and are rounded there, once, to nearest even.

//! T = f32 f64; I = s8 s16 s32 s64

// Towards zero; out of range gives the nearest integer there is, NaN gives 0.
static inline I rx_convert_T_I(T x) {
    return x >= LIMIT_I ? MAX_I : x < -LIMIT_I ? MIN_I : x == x ? (I)x : (I)0;
}

//! T = f32 f64; I = u8 u16 u32 u64

static inline I rx_convert_T_I(T x) {
    return x >= LIMIT_I ? MAX_I : x > 0.0 ? (I)x : (I)0;
}

//! T = f32

// The bf16 nearest to x, as an f32. A NaN stays one: its sign and upper payload bits are kept, and it is made quiet.
static inline float rx_round_bf16(float x) {
    uint bits = as_uint(x);
    uint rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u;
    return as_float(x == x ? rounded : (bits | 0x00400000u) & 0xffff0000u);
}

// The f16 nearest to x, as an f32. Numbers of f32 near 1.5 2^(e+13) are as far apart as those of f16 near 2^e, so that
// adding one and taking it off again rounds x; below 2^-14 all of f16 are as far apart as there. From 65520 on, halfway
// to 2^16, the nearest is infinity. A NaN stays one: its sign and upper payload bits are kept, and it is made quiet.
static inline float rx_round_f16(float x) {
#ifdef RX_HALVES
    // The processor does so. The sign once more, for the reason in rx_load_f16.
    ushort number;
    __builtin_store_halff(x, (half*)&number);
    uint rounded = as_uint(__builtin_load_halff((const half*)&number));
    return as_float(rounded | (as_uint(x) & 0x80000000u));
#else
    uint bits = as_uint(x);
    uint exponent = bits & 0x7f800000u;
    float spaced = as_float((exponent > 0x38800000u ? exponent : 0x38800000u) + 0x06c00000u);
    float rounded = (x + spaced) - spaced;
    float result = RX_FABS_F32(x) >= 65520.0 ? INFINITY_T : rounded;
    return as_float((as_uint(result) & 0xffffe000u) | (bits & 0x80000000u));
#endif
}

static inline float rx_load_bf16(ushort bits) {
    return as_float((uint)bits << 16);
}

static inline ushort rx_store_bf16(float x) {
    return (ushort)(as_uint(x) >> 16);
}

// Shifting puts the f16 fields where f32 has its own, with an exponent too small by 112; the product corrects it, for
// subnormals too.
static inline float rx_load_f16(ushort bits) {
#ifdef RX_HALVES
    // The processor makes a signaling NaN quiet, which is taken back. It also hides the number of f16 from a compiler
    // that would compute with it in f16, of which there are no vectors.
    uint number = as_uint(__builtin_load_halff((const half*)&bits));
    uint quieted = (bits & 0x7fffu) > 0x7c00u ? ~(uint)bits & 0x200u : 0u;
    return as_float(number ^ quieted << 13);
#else
    uint magnitude = ((uint)bits & 0x7fffu) << 13;
    uint finite = as_uint(as_float(magnitude) * 0x1p112);
    uint result = magnitude >= 0x0f800000u ? magnitude | 0x7f800000u : finite;
    return as_float(result | ((uint)bits & 0x8000u) << 16);
#endif
}

// x is already one of f16's values (see rx_round_f16), so no rounding happens here.
static inline ushort rx_store_f16(float x) {
#ifdef RX_HALVES
    ushort number;
    __builtin_store_halff(x, (half*)&number);
    // The processor makes a signaling NaN quiet.
    uint quieted = x == x ? 0u : ~as_uint(x) & 0x400000u;
    return number ^ (ushort)(quieted >> 13);
#else
    uint magnitude = as_uint(x) & 0x7fffffffu;
    uint finite = as_uint(as_float(magnitude) * 0x1p-112) >> 13;
    uint special = 0x7c00u | ((magnitude >> 13) & 0x3ffu);
    return (ushort)((magnitude >= 0x7f800000u ? special : finite) | (as_uint(x) >> 16 & 0x8000u));
#endif
}

// The same for an x that rx_round_f16 gave: its NaNs are quiet.
static inline ushort rx_store_rounded_f16(float x) {
#ifdef RX_HALVES
    ushort number;
    __builtin_store_halff(x, (half*)&number);
    return number;
#else
    return rx_store_f16(x);
#endif
}

//! T = f64

// f64 to f32 with rounding to odd: a rounding that follows, to a type of at most 22 bits, is then as if it were the
// only one. The number nearest to x, less the last bit if that is farther from 0 than x, has the leading bits of x.
static inline float rx_odd_f64(double x) {
    float nearest = (float)x;
    double found = (double)nearest;
    int leading = as_int(nearest) - (RX_FABS_F64(found) > RX_FABS_F64(x));
    return as_float(leading | ((found < x) | (found > x)));
}

//! I = s32

// The same for an integer: beyond 24 bits the last 7 become 0, and the one before them 1 if any of them was not 0. What is
// left has at most 24 bits, in two's complement, too.
static inline float rx_odd_I(I a) {
    I leading = (a | ((a & 0x7f) + 0x7f)) & ~0x7f;
    return (float)(((uint)a + 0x1000000u) >> 25 == 0u ? a : leading);
}

//! I = u32

static inline float rx_odd_I(I a) {
    I leading = (a | ((a & 0xffu) + 0xffu)) & ~0xffu;
    return (float)(a >> 24 == 0u ? a : leading);
}

//! I = u64

// Its 24 leading bits, the last of them set if any that follows is.
static inline float rx_odd_I(I a) {
    int dropped = WIDTH_I - 24 - (int)rx_count_leading_zeros_I(a);
    dropped = dropped > 0 ? dropped : 0;
    I kept = a >> dropped;
    kept |= (I)(kept << dropped != a);
    return (float)kept * as_float((127 + dropped) << 23);
}

//! I = s64

static inline float rx_odd_I(I a) {
    float magnitude = rx_odd_U((U_I)rx_abs_I(a));
    return a < 0 ? -magnitude : magnitude;
}

// Numbers of 64 bits as vectors of doubles: without AVX-512 processors convert one at a time. Each half is the mantissa of
// a double, the upper one times 2^32, and their sum rounds once. For narrower types, of more than 53 bits the last 11
// become 0, and the one before them 1 if any of them was not 0, so that only the second conversion rounds.

static inline double rx_convert_in_f64_I_f64(I a) {
    double upper = as_double(((ulong)a >> 32) ^ 0x4530000080000000ul) - 0x1.00000801p84;
    return upper + as_double(((ulong)a & 0xfffffffful) | 0x4330000000000000ul);
}

static inline double rx_leading_f64_I(I a) {
    ulong bits = (ulong)a;
    ulong leading = (bits | ((bits & 0x7fful) + 0x7fful)) & ~0x7fful;
    return rx_convert_in_f64_I_f64((I)((bits + 0x20000000000000ul) >> 54 == 0ul ? bits : leading));
}

//! I = u64

static inline double rx_convert_in_f64_I_f64(I a) {
    double upper = as_double((a >> 32) | 0x4530000000000000ul) - 0x1.00000001p84;
    return upper + as_double((a & 0xfffffffful) | 0x4330000000000000ul);
}

static inline double rx_leading_f64_I(I a) {
    I leading = (a | ((a & 0x7fful) + 0x7fful)) & ~0x7fful;
    return rx_convert_in_f64_I_f64(a >> 53 == 0ul ? a : leading);
}

//! I = s64 u64

static inline float rx_convert_in_f64_I_f32(I a) {
    return (float)rx_leading_f64_I(a);
}

static inline float rx_convert_in_f64_I_bf16(I a) {
    ulong bits = as_ulong(rx_leading_f64_I(a));
    return rx_round_bf16((float)as_double((bits | ((bits & 0x1ffffffful) + 0x1ffffffful)) & ~0x1ffffffful));
}

//! T = f64

// And back: the two halves of a number without its fraction are exact in doubles, and the sum of such a half and 1.5 2^52
// has it in the low bits of its mantissa.
static inline ulong rx_low_bits_T(T x) {
    T upper = RX_TRUNC_T(x * 0x1p-32);
    T lower = RX_TRUNC_T(x - upper * 0x1p32);
    return (as_ulong(upper + 0x1.8p52) << 32) + as_ulong(lower + 0x1.8p52) - 0x4338000000000000ul;
}

//! T = f32 f64; I = s64

static inline I rx_convert_in_f64_T_I(T x) {
    return x >= LIMIT_I ? MAX_I : x < -LIMIT_I ? MIN_I : x == x ? (I)rx_low_bits_f64(x) : (I)0;
}

//! T = f32 f64; I = u64

static inline I rx_convert_in_f64_T_I(T x) {
    return x >= LIMIT_I ? MAX_I : x > 0.0 ? rx_low_bits_f64(x) : (I)0;
}

//! F = f8e5m2 f8e4m3 f8e3m4 f8e4m3fn f8e4m3fnuz f8e4m3b11fnuz f8e5m2fnuz

// The nearest value of the format, as an f32; below LEAST_F, its least normal number, values are a quantum apart. What is
// then above MAX_F is infinite, or NaN where the format has no infinities. A format without -0 has +0 instead.
static inline float rx_round_F(float x) {
    uint sign = as_uint(x) & 0x80000000u;
    uint bits = as_uint(x) ^ sign;
    float magnitude = as_float(bits);
    uint normal = (bits + (HALF_F - 1u) + (bits / (2u * HALF_F) & 1u)) & ~(2u * HALF_F - 1u);
    float small = (magnitude + QUANTA_F) - QUANTA_F;
    float rounded = magnitude < LEAST_F ? small : as_float(normal);
    float result = x != x ? as_float(bits | 0x00400000u) : rounded > MAX_F ? OVERFLOW_F : rounded;
    return as_float((as_uint(result) & 0x7fffffffu) | (result == 0.0f ? sign & ZERO_SIGN_F : sign));
}

// The fields shifted to where f32 has them, and the exponent corrected by a product; see rx_load_f16. NaNs keep their bits.
static inline float rx_load_F(uchar raw) {
    uint magnitude = (uint)raw & 0x7fu;
    float finite = as_float(magnitude << SHIFT_F) * RAISE_F;
    uint nan = 0x7f800000u | QUIET_F | (magnitude << SHIFT_F & 0x007fffffu);
    float special = as_float(magnitude == INFINITY_CODE_F ? 0x7f800000u : nan);
    int is_special = (magnitude >= SPECIAL_CODE_F) | (raw == SPECIAL_CODE_F);
    return as_float(as_uint(is_special ? special : finite) | ((uint)raw & 0x80u) << 24);
}

// x is already a value of the format (see rx_round_F).
static inline uchar rx_store_F(float x) {
    uint sign = as_uint(x) >> 24 & 0x80u;
    uint magnitude = as_uint(x) & 0x7fffffffu;
    uint finite = as_uint(as_float(magnitude) * LOWER_F) >> SHIFT_F | sign;
    uint nan = NAN_CODE_F | (magnitude >> SHIFT_F & PAYLOAD_F);
    uint special = (magnitude == 0x7f800000u ? INFINITY_CODE_F : nan) | sign;
    return (uchar)(magnitude >= 0x7f800000u ? special : finite);
}

//! F = f6e2m3fn f6e3m2fn f4e2m1fn

// The same for formats that have neither infinities nor NaN: what is too large becomes MAX_F, and a NaN -0.
static inline float rx_round_F(float x) {
    uint sign = as_uint(x) & 0x80000000u;
    uint bits = as_uint(x) ^ sign;
    float magnitude = as_float(bits);
    uint normal = (bits + (HALF_F - 1u) + (bits / (2u * HALF_F) & 1u)) & ~(2u * HALF_F - 1u);
    float small = (magnitude + QUANTA_F) - QUANTA_F;
    float rounded = magnitude < LEAST_F ? small : as_float(normal);
    float result = rounded > MAX_F ? MAX_F : rounded;
    return as_float(x == x ? as_uint(result) | sign : 0x80000000u);
}

static inline float rx_load_F(uchar raw) {
    float finite = as_float(((uint)raw & (SIGN_CODE_F - 1u)) << SHIFT_F) * RAISE_F;
    return as_float(as_uint(finite) | ((uint)raw & SIGN_CODE_F) << SIGN_PLACES_F);
}

static inline uchar rx_store_F(float x) {
    uint magnitude = as_uint(x) & 0x7fffffffu;
    return (uchar)(as_uint(as_float(magnitude) * LOWER_F) >> SHIFT_F | (as_uint(x) & 0x80000000u) >> SIGN_PLACES_F);
}

//! T = f32

// f8e8m0fnu: powers of two, without zero or sign; 2^-127 is the middle of f32's subnormal numbers. Halfway is rounded up.
static inline float rx_round_f8e8m0fnu(float x) {
    uint bits = as_uint(x);
    uint small = bits < 0x00600000u ? 0x00400000u : 0x00800000u;
    uint normal = (bits + 0x00400000u) & 0x7f800000u;
    uint nearest = bits < 0x00800000u ? small : normal;
    return as_float(bits - 1u < 0x7f400000u - 1u ? nearest : 0x7fc00000u);
}

// What has become 0 in f32, and is none, is the least number of f8e8m0fnu when it is rounded.
static inline float rx_above_zero_f32(float x) {
    return x == 0.0 ? 0x1p-149 : x;
}

static inline float rx_load_f8e8m0fnu(uchar raw) {
    uint finite = raw == 0 ? 0x00400000u : (uint)raw << 23;
    return as_float(raw == 255 ? 0x7fc00000u : finite);
}

static inline uchar rx_store_f8e8m0fnu(float x) {
    return (uchar)(as_uint(x) >> 23 & 0xffu);
}

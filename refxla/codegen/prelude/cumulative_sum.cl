// Running sums and products of several rows at the same time.

//! T = f32 u32 f64 u64

// Eight rows of `count` elements, the r-th at the address from + r * step elements; rows from number `rows` on are read as
// the one before. Each goes on from its element of `totals`: what that is after each element, added to the row's element
// of `before` where there is one, goes to `to`, where rows lie `stride` elements apart. Eight elements of each row are transposed in registers, so that a vector has one of each.
static inline void rx_cumulative_T(const ulong from, const long step, const int rows, const int count,
                                   const int product, const T* before, T* totals, T* to, const long stride) {
    typedef T lanes __attribute__((ext_vector_type(8), aligned(4), may_alias));
    const T* at[8];
    for (int r = 0; r < 8; ++r) at[r] = (const T*)from + (r < rows ? r : rows - 1) * step;
    lanes total = *(const lanes*)totals, sum = before ? *(const lanes*)before : (lanes)(0), v[8], w[8];
    int k = 0;
#pragma clang loop unroll(disable)
    for (; k <= count - 8; k += 8) {
#pragma unroll
        for (int r = 0; r < 8; ++r) v[r] = *(const lanes*)(at[r] + k);
#pragma unroll
        for (int pass = 0; pass < 2; ++pass) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                w[2 * i] = __builtin_shufflevector(v[2 * i], v[2 * i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
                w[2 * i + 1] = __builtin_shufflevector(v[2 * i], v[2 * i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
            }
#pragma unroll
            for (int i = 0; i < 2; ++i) {
#pragma unroll
                for (int j = 0; j < 2; ++j) {
                    const lanes a = w[4 * i + j], b = w[4 * i + j + 2];
                    v[4 * i + 2 * j] = __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13);
                    v[4 * i + 2 * j + 1] = __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
                }
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                w[i] = __builtin_shufflevector(v[i], v[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
                w[i + 4] = __builtin_shufflevector(v[i], v[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
            }
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                v[i] = w[i];
                if (pass == 0) {
                    total = product ? total * v[i] : total + v[i];
                    v[i] = before ? sum + total : total;
                }
            }
        }
#pragma unroll
        for (int r = 0; r < 8; ++r) *(lanes*)(to + r * stride + k) = v[r];
    }
    *(lanes*)totals = total;
    for (; k < count; ++k) {
        for (int r = 0; r < 8; ++r) {
            const T value = at[r][k];
            totals[r] = product ? totals[r] * value : totals[r] + value;
            to[r * stride + k] = before ? before[r] + totals[r] : totals[r];
        }
    }
}

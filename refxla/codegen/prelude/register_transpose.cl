// Transposing blocks in vector registers (of clang's compilers only).

// to[c * stride + r] = element c of row r, for `rows` of `columns` elements; `from` and `to` are addresses, and
// there is room for whole blocks of 32 bytes of rows.
// Row r lies r * step elements behind the first one; rows from number `rows` on are read as the one before. Columns
// follow each other in memory forward (sign 1) or backward (-1). Sixteen bytes are read at once: where the columns are
// no multiple of them, some before the last ones are transposed again, or columns before the first one, if there are too
// few; these must be there, and have room in `to`. Of each row, the line `ahead` elements behind is read ahead.
// Two rows lie in the halves of a register; what a stage joins are the elements of rows that lie half a block apart.

//! I = u8

static inline RX_NOINLINE void rx_transpose_I(const ulong from, const long step, const int rows, const int columns,
                                        const int sign, const long ahead, const ulong to, const long stride) {
    typedef uchar part __attribute__((ext_vector_type(16), aligned(1), may_alias));
    typedef uchar block __attribute__((ext_vector_type(32), aligned(1), may_alias));
    for (int r = 0; r < rows; r += 32) {
        long at[32];
        for (int i = 0; i < 32; ++i) at[i] = (r + i < rows ? r + i : rows - 1) * step;
        for (int i = 0; ahead && i < 32; ++i) RX_PREFETCH((const I*)from + at[i] + ahead);
#pragma clang loop unroll(disable)
        for (int c = 0; c < columns; c += 16) {
            const int k = c < columns - 16 ? c : columns - 16;
            const I* p = (const I*)from + (sign > 0 ? k : -k - 15);
            I* q = (I*)to + (sign > 0 ? k : k + 15) * stride + r;
            block v[16], w[16];
#pragma unroll
            for (int i = 0; i < 16; ++i)
                v[i] = __builtin_shufflevector(*(const part*)(p + at[i]), *(const part*)(p + at[16 + i]),
                                               0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19,
                                               20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31);
#pragma unroll
            for (int stage = 0; stage < 4; ++stage) {
#pragma unroll
                for (int i = 0; i < 8; ++i) {
                    w[2 * i] = __builtin_shufflevector(v[i], v[i + 8], 0, 32, 1, 33, 2, 34, 3, 35, 4, 36, 5, 37, 6, 38,
                                                       7, 39, 16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22, 54,
                                                       23, 55);
                    w[2 * i + 1] = __builtin_shufflevector(v[i], v[i + 8], 8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13,
                                                           45, 14, 46, 15, 47, 24, 56, 25, 57, 26, 58, 27, 59, 28, 60,
                                                           29, 61, 30, 62, 31, 63);
                }
#pragma unroll
                for (int i = 0; i < 16; ++i) v[i] = w[i];
            }
#pragma unroll
            for (int i = 0; i < 16; ++i) *(block*)(q + sign * i * stride) = v[i];
        }
    }
}

//! I = u16

static inline RX_NOINLINE void rx_transpose_I(const ulong from, const long step, const int rows, const int columns,
                                        const int sign, const long ahead, const ulong to, const long stride) {
    typedef ushort part __attribute__((ext_vector_type(8), aligned(2), may_alias));
    typedef ushort block __attribute__((ext_vector_type(16), aligned(2), may_alias));
    for (int r = 0; r < rows; r += 16) {
        long at[16];
        for (int i = 0; i < 16; ++i) at[i] = (r + i < rows ? r + i : rows - 1) * step;
        for (int i = 0; ahead && i < 16; ++i) RX_PREFETCH((const I*)from + at[i] + ahead);
#pragma clang loop unroll(disable)
        for (int c = 0; c < columns; c += 8) {
            const int k = c < columns - 8 ? c : columns - 8;
            const I* p = (const I*)from + (sign > 0 ? k : -k - 7);
            I* q = (I*)to + (sign > 0 ? k : k + 7) * stride + r;
            block v[8], w[8];
#pragma unroll
            for (int i = 0; i < 8; ++i)
                v[i] = __builtin_shufflevector(*(const part*)(p + at[i]), *(const part*)(p + at[8 + i]),
                                               0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
#pragma unroll
            for (int stage = 0; stage < 3; ++stage) {
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    w[2 * i] = __builtin_shufflevector(v[i], v[i + 4], 0, 16, 1, 17, 2, 18, 3, 19, 8, 24, 9, 25, 10,
                                                       26, 11, 27);
                    w[2 * i + 1] = __builtin_shufflevector(v[i], v[i + 4], 4, 20, 5, 21, 6, 22, 7, 23, 12, 28, 13, 29,
                                                           14, 30, 15, 31);
                }
#pragma unroll
                for (int i = 0; i < 8; ++i) v[i] = w[i];
            }
#pragma unroll
            for (int i = 0; i < 8; ++i) *(block*)(q + sign * i * stride) = v[i];
        }
    }
}

//! I = u32

static inline RX_NOINLINE void rx_transpose_I(const ulong from, const long step, const int rows, const int columns,
                                        const int sign, const long ahead, const ulong to, const long stride) {
    typedef uint part __attribute__((ext_vector_type(4), aligned(4), may_alias));
    typedef uint block __attribute__((ext_vector_type(8), aligned(4), may_alias));
    for (int r = 0; r < rows; r += 8) {
        long at[8];
        for (int i = 0; i < 8; ++i) at[i] = (r + i < rows ? r + i : rows - 1) * step;
        for (int i = 0; ahead && i < 8; ++i) RX_PREFETCH((const I*)from + at[i] + ahead);
#pragma clang loop unroll(disable)
        for (int c = 0; c < columns; c += 4) {
            const int k = c < columns - 4 ? c : columns - 4;
            const I* p = (const I*)from + (sign > 0 ? k : -k - 3);
            I* q = (I*)to + (sign > 0 ? k : k + 3) * stride + r;
            block v[4], w[4];
#pragma unroll
            for (int i = 0; i < 4; ++i)
                v[i] = __builtin_shufflevector(*(const part*)(p + at[i]), *(const part*)(p + at[4 + i]),
                                               0, 1, 2, 3, 4, 5, 6, 7);
#pragma unroll
            for (int stage = 0; stage < 2; ++stage) {
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    w[2 * i] = __builtin_shufflevector(v[i], v[i + 2], 0, 8, 1, 9, 4, 12, 5, 13);
                    w[2 * i + 1] = __builtin_shufflevector(v[i], v[i + 2], 2, 10, 3, 11, 6, 14, 7, 15);
                }
#pragma unroll
                for (int i = 0; i < 4; ++i) v[i] = w[i];
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) *(block*)(q + sign * i * stride) = v[i];
        }
    }
}

//! I = u64

static inline RX_NOINLINE void rx_transpose_I(const ulong from, const long step, const int rows, const int columns,
                                        const int sign, const long ahead, const ulong to, const long stride) {
    typedef ulong part __attribute__((ext_vector_type(2), aligned(8), may_alias));
    typedef ulong block __attribute__((ext_vector_type(4), aligned(8), may_alias));
    for (int r = 0; r < rows; r += 4) {
        long at[4];
        for (int i = 0; i < 4; ++i) at[i] = (r + i < rows ? r + i : rows - 1) * step;
        for (int i = 0; ahead && i < 4; ++i) RX_PREFETCH((const I*)from + at[i] + ahead);
#pragma clang loop unroll(disable)
        for (int c = 0; c < columns; c += 2) {
            const int k = c < columns - 2 ? c : columns - 2;
            const I* p = (const I*)from + (sign > 0 ? k : -k - 1);
            I* q = (I*)to + (sign > 0 ? k : k + 1) * stride + r;
            const block a = __builtin_shufflevector(*(const part*)(p + at[0]), *(const part*)(p + at[2]), 0, 1, 2, 3);
            const block b = __builtin_shufflevector(*(const part*)(p + at[1]), *(const part*)(p + at[3]), 0, 1, 2, 3);
            *(block*)q = __builtin_shufflevector(a, b, 0, 4, 2, 6);
            *(block*)(q + sign * stride) = __builtin_shufflevector(a, b, 1, 5, 3, 7);
        }
    }
}

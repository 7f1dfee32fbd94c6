// Moving a tile of 32-bit elements between the two directions of a transpose (of clang's compilers only).

//! I = u32

// turned[c][r] = element c of row r for 16 rows of 64 columns, in registers of 8 x 8. The rows begin at the address
// `tile`, private or global memory (on a CPU, one space), each `step` elements behind the one before it.
static inline void rx_transpose_tile_I(const ulong tile, const long step, void* turned) {
    typedef uint8 block __attribute__((may_alias));
    typedef uint8 loose __attribute__((aligned(4), may_alias));
#pragma clang loop unroll(disable)
    for (int r = 0; r < 16; r += 8) {
#pragma clang loop unroll(disable)
        for (int c = 0; c < 64; c += 8) {
            const uint* from = (const uint*)tile + r * step + c;
            block a0 = *(const loose*)(from), a1 = *(const loose*)(from + step);
            block a2 = *(const loose*)(from + 2 * step), a3 = *(const loose*)(from + 3 * step);
            block a4 = *(const loose*)(from + 4 * step), a5 = *(const loose*)(from + 5 * step);
            block a6 = *(const loose*)(from + 6 * step), a7 = *(const loose*)(from + 7 * step);
            block b0 = __builtin_shufflevector(a0, a1, 0, 8, 1, 9, 4, 12, 5, 13);
            block b1 = __builtin_shufflevector(a0, a1, 2, 10, 3, 11, 6, 14, 7, 15);
            block b2 = __builtin_shufflevector(a2, a3, 0, 8, 1, 9, 4, 12, 5, 13);
            block b3 = __builtin_shufflevector(a2, a3, 2, 10, 3, 11, 6, 14, 7, 15);
            block b4 = __builtin_shufflevector(a4, a5, 0, 8, 1, 9, 4, 12, 5, 13);
            block b5 = __builtin_shufflevector(a4, a5, 2, 10, 3, 11, 6, 14, 7, 15);
            block b6 = __builtin_shufflevector(a6, a7, 0, 8, 1, 9, 4, 12, 5, 13);
            block b7 = __builtin_shufflevector(a6, a7, 2, 10, 3, 11, 6, 14, 7, 15);
            a0 = __builtin_shufflevector(b0, b2, 0, 1, 8, 9, 4, 5, 12, 13);
            a1 = __builtin_shufflevector(b0, b2, 2, 3, 10, 11, 6, 7, 14, 15);
            a2 = __builtin_shufflevector(b1, b3, 0, 1, 8, 9, 4, 5, 12, 13);
            a3 = __builtin_shufflevector(b1, b3, 2, 3, 10, 11, 6, 7, 14, 15);
            a4 = __builtin_shufflevector(b4, b6, 0, 1, 8, 9, 4, 5, 12, 13);
            a5 = __builtin_shufflevector(b4, b6, 2, 3, 10, 11, 6, 7, 14, 15);
            a6 = __builtin_shufflevector(b5, b7, 0, 1, 8, 9, 4, 5, 12, 13);
            a7 = __builtin_shufflevector(b5, b7, 2, 3, 10, 11, 6, 7, 14, 15);
            uint* to = (uint*)turned + c * 16 + r;
            *(block*)(to) = __builtin_shufflevector(a0, a4, 0, 1, 2, 3, 8, 9, 10, 11);
            *(block*)(to + 16) = __builtin_shufflevector(a1, a5, 0, 1, 2, 3, 8, 9, 10, 11);
            *(block*)(to + 32) = __builtin_shufflevector(a2, a6, 0, 1, 2, 3, 8, 9, 10, 11);
            *(block*)(to + 48) = __builtin_shufflevector(a3, a7, 0, 1, 2, 3, 8, 9, 10, 11);
            *(block*)(to + 64) = __builtin_shufflevector(a0, a4, 4, 5, 6, 7, 12, 13, 14, 15);
            *(block*)(to + 80) = __builtin_shufflevector(a1, a5, 4, 5, 6, 7, 12, 13, 14, 15);
            *(block*)(to + 96) = __builtin_shufflevector(a2, a6, 4, 5, 6, 7, 12, 13, 14, 15);
            *(block*)(to + 112) = __builtin_shufflevector(a3, a7, 4, 5, 6, 7, 12, 13, 14, 15);
        }
    }
}

// Writing whole lines past the caches, and reading ahead (of clang's compilers only).

//! I = u8 u16 u32 u64

// Copies `count` elements from the private address `from` to the address `to`: whole lines past the caches, what lies in
// the first and the last line beside others' elements as ever.
static inline void rx_stream_I(const ulong to, const ulong from, const int count) {
    typedef ulong4 block __attribute__((may_alias));
    typedef ulong4 loose __attribute__((aligned(1), may_alias));
    const int part = 32 / sizeof(I), behind = (int)(-to % 64 / sizeof(I));
    const I* const lines = (const I*)from;
    I* const out = (I*)to;
    const int first = behind < count ? behind : count;
    int i = 0;
#pragma clang loop vectorize(disable) unroll(disable)
    for (; i < first; ++i) out[i] = lines[i];
    for (; i <= count - 2 * part; i += 2 * part) {
        const block a = *(const loose*)(lines + i), b = *(const loose*)(lines + i + part);
        __builtin_nontemporal_store(a, (block*)(out + i));
        __builtin_nontemporal_store(b, (block*)(out + i + part));
    }
#pragma clang loop vectorize(disable) unroll(disable)
    for (; i < count; ++i) out[i] = lines[i];
}

// Writes `count` elements from the private address `from` to the address `to`, but for what does not fill the last line:
// that is moved to where they began, behind which there is room for a line. Returns how many bytes it has.
static inline RX_APART int rx_join_I(const ulong to, const ulong from, const int count) {
    typedef ulong4 loose __attribute__((aligned(1), may_alias));
    const int rest = (int)((to + count * sizeof(I)) % 64 / sizeof(I));
    rx_stream_I(to, from, count - rest);
    const loose* const left = (const loose*)((const I*)from + count - rest);
    const loose a = left[0], b = left[1];
    ((loose*)from)[0] = a;
    ((loose*)from)[1] = b;
    return rest * (int)sizeof(I);
}

// Writes the strips of a result that begin at the address `to`, and what was left of those before, past the caches.
// `gathered` has a line's elements, the last of them from the strips before, and then those of `height` rows. What is no
// whole line is left for the next time, but written of the last strips, which have fewer `rows`.
static inline RX_APART void rx_line_I(const ulong to, void* gathered, const int rows, const int height,
                                      const int first) {
    typedef ulong4 block __attribute__((may_alias));
    const int part = 32 / sizeof(I), count = 2 * part, behind = (int)(to / sizeof(I) % count);
    I* const strip = (I*)gathered + count;
    const int begin = first ? 0 : -behind, end = rows < height ? rows : height - behind;
    rx_stream_I(to + begin * sizeof(I), (ulong)(strip + begin), end - begin);
    *(block*)gathered = *(const block*)(strip + height - count);
    *(block*)((I*)gathered + part) = *(const block*)(strip + height - part);
}

//! I = u8

// Has a line of each of so many rows read ahead: those at address + r * step.
static inline void rx_fetch(const ulong address, const long step, const int rows) {
    for (int r = 0; r < rows; ++r) __builtin_prefetch((const void*)(address + r * step));
}

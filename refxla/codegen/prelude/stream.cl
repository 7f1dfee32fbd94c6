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

// Writes the strip of a result that begins at the address `to`, and what was left of the strip before: whole lines, past
// the caches. `gathered` has a line's elements, the last of them from the strip before, and then the strip's `height`.
// Of the first strip, and of the last one that has fewer `rows`, single elements are written.
static inline void rx_line_I(const ulong to, void* gathered, const int rows, const int height, const int first) {
    typedef ulong4 block __attribute__((may_alias));
    typedef ulong4 loose __attribute__((aligned(1), may_alias));
    const int part = 32 / sizeof(I), count = 2 * part, behind = (int)(to / sizeof(I) % count);
    I* const strip = (I*)gathered + count;
    I* const out = (I*)to;
    if (first || rows < height) {
        const int end = rows < height ? rows : height - behind;
        for (int i = first ? 0 : -behind; i < end; ++i) out[i] = strip[i];
    } else {
        for (int i = -behind; i < height - behind; i += count) {
            // clang takes for the place's alignment that of the value.
            const block a = *(const loose*)(strip + i), b = *(const loose*)(strip + i + part);
            __builtin_nontemporal_store(a, (block*)(out + i));
            __builtin_nontemporal_store(b, (block*)(out + i + part));
        }
    }
    *(block*)gathered = *(const block*)(strip + height - count);
    *(block*)((I*)gathered + part) = *(const block*)(strip + height - part);
}

//! I = u8

// Has a line of each of so many rows read ahead: those at address + r * step.
static inline void rx_fetch(const ulong address, const long step, const int rows) {
    for (int r = 0; r < rows; ++r) __builtin_prefetch((const void*)(address + r * step));
}

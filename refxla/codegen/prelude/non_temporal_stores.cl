// Writing whole lines past the caches, and reading ahead (of clang's compilers only).

//! I = u8 u16 u32 u64

// Copies `count` elements from the address `from` to the address `to`.
static inline RX_NOINLINE void rx_copy_I(const ulong to, const ulong from, const int count) {
    typedef I any __attribute__((may_alias));
    for (int i = 0; i < count; ++i) ((any*)to)[i] = ((const any*)from)[i];
}

// Copies `count` elements from the private address `from` to the address `to`: whole lines past the caches, what lies in
// the first and the last line beside others' elements as ever.
static inline void rx_copy_non_temporal_I(const ulong to, const ulong from, const int count) {
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
static inline RX_NOINLINE int rx_flush_lines_I(const ulong to, const ulong from, const int count) {
    typedef ulong4 loose __attribute__((aligned(1), may_alias));
    const int rest = (int)((to + count * sizeof(I)) % 64 / sizeof(I));
    rx_copy_non_temporal_I(to, from, count - rest);
    const loose* const left = (const loose*)((const I*)from + count - rest);
    const loose a = left[0], b = left[1];
    ((loose*)from)[0] = a;
    ((loose*)from)[1] = b;
    return rest * (int)sizeof(I);
}

// Writes a block of a result past the caches: `columns` of them, the first at the address `to`, `step` elements apart.
// `gathered` has room for a line and then `height` rows of each; the line is filled with what is `left` of the strip
// before. What is no whole line is left for the next time, but written of the last strip, which has fewer `rows`. A line
// of which others have a part comes from memory first: it is fetched with the block before.
static inline RX_NOINLINE void rx_store_lines_I(const ulong to, const long step, const ulong gathered, const ulong left,
                                       const int columns, const int rows, const int height, const int first) {
    typedef ulong4 block __attribute__((may_alias));
    typedef ulong4 loose __attribute__((aligned(1), may_alias));
    const int count = 64 / sizeof(I), whole = height / count * 2;
    if (first || rows < height) {
        const I* const next = (const I*)to + columns * step + (first ? 0 : rows);
        for (int c = 0; c < columns; ++c)
            if ((ulong)(next + c * step) % 64) RX_PREFETCH_FOR_WRITE(next + c * step);
    }
    for (int c = 0; c < columns; ++c) {
        I* const out = (I*)to + c * step;
        I* const strip = (I*)gathered + c * (count + height) + count;
        const int behind = (int)((ulong)out / sizeof(I) % count);
        block* const line = (block*)(strip - count);
        block* const own = (block*)left + 2 * c;
        line[0] = own[0];
        line[1] = own[1];
        if (first || rows < height) {
            const int begin = first ? 0 : -behind, end = rows < height ? rows : height - behind;
            rx_copy_non_temporal_I((ulong)(out + begin), (ulong)(strip + begin), end - begin);
        } else {
#pragma clang loop unroll(disable)
            for (int i = 0; i < whole; i += 2) {
                const block a = ((const loose*)(strip - behind))[i], b = ((const loose*)(strip - behind))[i + 1];
                __builtin_nontemporal_store(a, (block*)(out - behind) + i);
                __builtin_nontemporal_store(b, (block*)(out - behind) + i + 1);
            }
        }
        own[0] = *(const block*)(strip + height - count);
        own[1] = *(const block*)(strip + height - count / 2);
    }
}

// Writes the `count` elements behind the line at the address `lines` to the address `to`, past the caches, after what was
// left in that line, unless they are where it `starts`. What fills no line is left to what comes next in memory, at the end
// of the line at the address `left`, unless it `ends`.
static inline RX_NOINLINE void rx_store_strip_I(const ulong to, const ulong lines, const ulong left, const int count,
                                       const int starts, const int ends) {
    typedef ulong4 block __attribute__((may_alias));
    typedef ulong4 loose __attribute__((aligned(1), may_alias));
    const int line = 64 / sizeof(I), place = (int)(to / sizeof(I) % line);
    const int begin = starts ? 0 : -place, end = ends ? count : count - (place + count) % line;
    rx_copy_non_temporal_I(to + begin * sizeof(I), lines + (line + begin) * sizeof(I), end - begin);
    const loose* const last = (const loose*)(lines + count * sizeof(I));
    ((block*)left)[0] = last[0];
    ((block*)left)[1] = last[1];
}

//! I = u8

// Copies `count` bytes, few of them, between addresses.
static inline RX_NOINLINE void rx_copy_bytes(const ulong to, const ulong from, const int count) {
#pragma clang loop vectorize(disable) unroll(disable)
    for (int i = 0; i < count; ++i) ((uchar*)to)[i] = ((const uchar*)from)[i];
}

// Writes the `count` bytes, two lines or more, from the address `from` to the address `to`, past the caches: behind those
// before, of which the private `line` has what did not fill one, unless these are the first. It is left with what of
// these fills none. There is room for a line before it and behind it.
static inline RX_NOINLINE void rx_append_row(const ulong to, const ulong from, const int count, const ulong line,
                                      const int first) {
    typedef ulong4 block __attribute__((may_alias));
    typedef ulong4 loose __attribute__((aligned(1), may_alias));
    const int behind = (int)(to % 64);
    int i = (64 - behind) % 64;
    if (first) {
        rx_copy_bytes(to, from, i);
    } else {
        const block a = *(const loose*)from, b = *(const loose*)(from + 32);
        *(loose*)(line + behind) = a;
        *(loose*)(line + behind + 32) = b;
        __builtin_nontemporal_store(*(const block*)line, (block*)(to - behind));
        __builtin_nontemporal_store(*(const block*)(line + 32), (block*)(to - behind + 32));
        i = 64 - behind;
    }
#pragma clang loop unroll(disable)
    for (; i <= count - 64; i += 64) {
        const block a = *(const loose*)(from + i), b = *(const loose*)(from + i + 32);
        __builtin_nontemporal_store(a, (block*)(to + i));
        __builtin_nontemporal_store(b, (block*)(to + i + 32));
    }
    const loose* const last = (const loose*)(from + count - 64);
    const block a = last[0], b = last[1];
    *(loose*)(line + count - i - 64) = a;
    *(loose*)(line + count - i - 32) = b;
}

// Writes what fills no line: the bytes of the last one up to the address `to`.
static inline void rx_append_tail(const ulong to, const ulong line) {
    rx_copy_bytes(to / 64 * 64, line, (int)(to % 64));
}

// Has a line of each of so many rows read ahead: those at address + r * step.
static inline void rx_prefetch(const ulong address, const long step, const int rows) {
    for (int r = 0; r < rows; ++r) RX_PREFETCH(address + r * step);
}

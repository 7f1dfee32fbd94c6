// Items of a launch that go through phases together (of clang's compilers on a CPU only).
//
// Nobody waits for who is not there: the shares of a phase are taken by those who are, a phase is over when all of it is
// done, and who comes late finds the phases before it over. So items may run at the same time or one after the other.
//
// `sync` is memory that all items share, zeroed before the first launch and left so for the next one: longs, each on a
// line of 64 bytes. Number 0 is the phase that is worked on, 1 how much of it is done, 2 how many items are through with
// the launch, 3 whether a loop goes on, and 4 + n the phase (above bit 32) and what was taken of item n's share of it.

// A call of rx_next takes 3 ns when it is optimised and 7 when it is not, and microseconds are what it hands out. To
// optimise these functions takes a tenth of the time in which a program is compiled. Where parts of programs are linked,
// rx_next and rx_leave are compiled once for all programs (function_library.py), and optimised.

//! I = s32

// A moment's rest of one who waits for the `spins`-th time: short ones at first, then whoever else can run may.
static inline RX_INLINE void rx_rest_I(const int spins) {
#if defined(__x86_64__)
    if (spins < 2000) {
        __builtin_ia32_pause();
        return;
    }
#if defined(__linux__)
    long number = 24;  // sched_yield
    __asm__ volatile("syscall" : "+a"(number) : : "rcx", "r11", "memory");
#endif
#elif defined(__aarch64__)
    __asm__ volatile("yield" : : : "memory");
#if defined(__linux__)
    if (spins >= 2000) {
        register long number __asm__("x8") = 124;  // sched_yield
        register long result __asm__("x0");
        __asm__ volatile("svc 0" : "=r"(result) : "r"(number) : "memory");
    }
#endif
#endif
}

// The next of `count` things to do in a phase that belongs to item `who`'s share, or -1: shares are stretches of equal
// length, and who is done with the own takes from others'.
static inline RX_INLINE int rx_take_I(
    __global long* sync, const int phase, const int who, const int workers, const int count) {
    __global long* share = sync + 8 * (4 + who);
    const int begin = (int)((long)count * who / workers);
    const int length = (int)((long)count * (who + 1) / workers) - begin;
    long seen = __atomic_load_n(share, __ATOMIC_ACQUIRE);
    while ((int)(seen >> 32) == phase && (int)seen < length) {
        if (__atomic_compare_exchange_n(share, &seen, seen + 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
            return begin + (int)seen;
        }
    }
    return -1;
}

// Says that `did` of a phase's `count` things are done, and waits until all are. What was written in the phase, all can
// read afterwards.
static inline RX_INLINE void rx_finish_I(
    __global long* sync, const int phase, const int did, const int workers, const int count) {
    if (did > 0 && __atomic_fetch_add(sync + 8, (long)did, __ATOMIC_ACQ_REL) + did == count) {
        __atomic_store_n(sync + 8, 0L, __ATOMIC_RELAXED);
        for (int n = 0; n < workers; ++n) __atomic_store_n(sync + 8 * (4 + n), (long)(phase + 1) << 32, __ATOMIC_RELEASE);
        __atomic_store_n(sync, (long)(phase + 1), __ATOMIC_RELEASE);
        return;
    }
    for (int spins = 0; __atomic_load_n(sync, __ATOMIC_ACQUIRE) == phase; spins += spins < 2000) rx_rest_I(spins);
}

// Notes, as the one thing to do in a phase, whether a loop goes on.
static inline void rx_note_I(__global long* sync, const int goes) {
    __atomic_store_n(sync + 24, (long)goes, __ATOMIC_RELEASE);
}

// Whether the loop goes on, after that phase; `phase` is the next one. Where that is over, it did.
static inline int rx_goes_I(__global long* sync, const int phase) {
    const long goes = __atomic_load_n(sync + 24, __ATOMIC_ACQUIRE);
    return goes != 0 || __atomic_load_n(sync, __ATOMIC_ACQUIRE) != phase;
}

//! I = s32; library

// The next of `count` things to do in the phase that item `item` is in, or -1 once that phase is over. `at` is where the
// item is: the phase, from how many items' shares it has taken all, how many things it did; it starts as {0, 0, 0}.
static inline RX_UNOPTIMIZED int rx_next_I(
    __global long* sync, __private int* at, const int item, const int workers, const int count) {
    for (; at[1] < workers; ++at[1]) {
        const int next = rx_take_I(sync, at[0], (item + at[1]) % workers, workers, count);
        if (next >= 0) {
            ++at[2];
            return next;
        }
    }
    rx_finish_I(sync, at[0]++, at[2], workers, count);
    at[1] = at[2] = 0;
    return -1;
}

// The end of a launch for one item; the last one leaves `sync` as it was.
static inline RX_UNOPTIMIZED void rx_leave_I(__global long* sync, const int workers) {
    if (__atomic_fetch_add(sync + 16, 1L, __ATOMIC_ACQ_REL) != workers - 1) return;
    for (int n = 0; n < 4 + workers; ++n) __atomic_store_n(sync + 8 * n, 0L, __ATOMIC_RELAXED);
}

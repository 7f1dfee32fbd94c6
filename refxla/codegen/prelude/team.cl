// Items of a launch that run at the same time and go on together (of clang's compilers on a CPU only).
//
// `sync` is memory that all of them share, zeroed before the first launch and left so that the next one finds it as it
// must be: ints of 64 bytes each. Number 0 counts who has arrived, 1 the meetings so far, and 2 + n what was taken of
// item n's share.

//! I = s32

// A moment's rest of one who waits for the `spins`-th time: short ones at first, then whoever else can run may.
static inline void rx_rest_I(const int spins) {
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

// Waits until all `team` items are here. What each wrote before, all can read after.
static inline void rx_meet_I(__global int* sync, const int team) {
    const int meeting = __atomic_load_n(sync + 16, __ATOMIC_RELAXED);
    if (__atomic_fetch_add(sync, 1, __ATOMIC_ACQ_REL) == team - 1) {
        for (int n = 0; n < team; ++n) __atomic_store_n(sync + 16 * (2 + n), 0, __ATOMIC_RELAXED);
        __atomic_store_n(sync, 0, __ATOMIC_RELAXED);
        __atomic_store_n(sync + 16, meeting + 1, __ATOMIC_RELEASE);
        return;
    }
    for (int spins = 0; __atomic_load_n(sync + 16, __ATOMIC_ACQUIRE) == meeting; spins += spins < 2000) {
        rx_rest_I(spins);
    }
}

// The next of `count` things to do that belongs to item `who`'s share, or -1: shares are stretches of equal length, and
// who is done with the own takes from others'.
static inline int rx_take_I(__global int* sync, const int who, const int team, const int count) {
    const int begin = (int)((long)count * who / team);
    const int end = (int)((long)count * (who + 1) / team);
    if (begin + __atomic_load_n(sync + 16 * (2 + who), __ATOMIC_RELAXED) >= end) return -1;
    const int at = begin + __atomic_fetch_add(sync + 16 * (2 + who), 1, __ATOMIC_RELAXED);
    return at < end ? at : -1;
}

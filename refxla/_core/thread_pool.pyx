# cython: cdivision=True
"""The thread pool that shares the items of a launch: the calling thread and persistent workers.

Waking a sleeping thread takes a system ten microseconds, and tens on a virtual machine; many programs take little more.
So the calling thread works, too, and an idle worker spins for a while, since the next launch is likely to come soon;
only then does it sleep.

Each member (the calling thread and the workers) has a share of the items. It repeatedly takes half of what is left of
its share, and then takes from the shares of others in the same way (work stealing). Nobody waits for a worker that has
not started: it finds less to do. There is one pool; a thread that calls while the pool works for another one processes
all items alone.

If the pool has a member for each core that the process may use, each worker is bound to a core of its own, and never to
the calling thread's: otherwise two may share a core for long while another core idles.
"""

from libc.stdint cimport int64_t, intptr_t

from refxla._core.thread_pool cimport Work

cdef extern from *:
    """
    #ifndef _GNU_SOURCE
    #define _GNU_SOURCE
    #endif
    #include <pthread.h>
    #include <sched.h>
    #include <signal.h>
    #include <stdint.h>
    #include <time.h>

    enum { RX_MOST = 1024 };  /* members */
    static pthread_mutex_t rx_mutex = PTHREAD_MUTEX_INITIALIZER;
    static pthread_cond_t rx_wake = PTHREAD_COND_INITIALIZER;

    static inline int64_t rx_load(const int64_t* p) { return __atomic_load_n(p, __ATOMIC_SEQ_CST); }
    static inline void rx_store(int64_t* p, int64_t value) { __atomic_store_n(p, value, __ATOMIC_SEQ_CST); }
    static inline int64_t rx_add(int64_t* p, int64_t value) { return __atomic_add_fetch(p, value, __ATOMIC_SEQ_CST); }
    static inline int rx_swap(int64_t* p, int64_t* seen, int64_t value) {
        return __atomic_compare_exchange_n(p, seen, value, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    }

    /* A moment's rest of one who waits for the `waits`-th time: short ones at first, then whoever else can run may. */
    static inline void rx_rest(int64_t waits) {
        if (waits >= 1000) {
            sched_yield();
            return;
        }
    #if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
    #elif defined(__aarch64__)
        __asm__ volatile("yield" : : : "memory");
    #endif
    }

    static inline int64_t rx_now(void) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return now.tv_sec * (int64_t)1000000000 + now.tv_nsec;
    }

    static pthread_t rx_threads[RX_MOST];  /* of each worker */
    static int rx_core = -1;  /* of the thread that called last, where workers are bound to theirs; else -1 */
    static int rx_cores[RX_MOST];  /* of each worker, or -1 */

    static void rx_bind(int who, int core) {
        rx_cores[who] = core;
    #if defined(__linux__)
        cpu_set_t only;
        CPU_ZERO(&only);
        CPU_SET(core, &only);
        pthread_setaffinity_np(rx_threads[who], sizeof only, &only);
    #endif
    }

    /* Binds each worker to a core of its own, if there are not more cores than members. */
    static void rx_spread(int members) {
        for (int who = 1; who < members; ++who) rx_cores[who] = -1;
    #if defined(__linux__)
        cpu_set_t all;
        const int here = sched_getcpu();
        if (sched_getaffinity(0, sizeof all, &all) != 0 || CPU_COUNT(&all) > members || here < 0) return;
        rx_core = here;
        for (int core = 0, who = 1; core < CPU_SETSIZE && who < members; ++core) {
            if (CPU_ISSET(core, &all) && core != here) rx_bind(who++, core);
        }
    #endif
    }

    /* The calling thread may have moved to a worker's core: they change places. */
    static inline void rx_follow(int members) {
    #if defined(__linux__)
        const int here = rx_core < 0 ? -1 : sched_getcpu();
        if (here == rx_core) return;
        for (int who = 1; who < members; ++who) {
            if (rx_cores[who] == here) rx_bind(who, rx_core);
        }
        rx_core = here;
    #endif
    }

    /* Begins a thread with so much of a stack, which no signal interrupts; whether there is one. */
    static int rx_begin(pthread_t* thread, void* (*run)(void*), void* argument, size_t stack) {
        pthread_attr_t with;
        sigset_t all, before;
        if (pthread_attr_init(&with) != 0) return 0;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        const int begun =
            pthread_attr_setstacksize(&with, stack) == 0 && pthread_create(thread, &with, run, argument) == 0;
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        pthread_attr_destroy(&with);
        return begun;
    }

    /* Starts a worker, which is never joined; whether there is one. */
    static int rx_start_worker(void* (*run)(void*), int64_t who, size_t stack) {
        if (!rx_begin(&rx_threads[who], run, (void*)(intptr_t)who, stack)) return 0;
    #if defined(__linux__)
        pthread_setname_np(rx_threads[who], "refxla");
    #endif
        return pthread_detach(rx_threads[who]) == 0;
    }

    /* Runs it in another thread while this one waits; whether there is one. */
    static int rx_apart(void* (*run)(void*), void* argument, size_t stack) {
        pthread_t thread;
        return rx_begin(&thread, run, argument, stack) && pthread_join(thread, NULL) == 0;
    }

    /* Whether so many bytes of this thread's stack are left, where the system tells. */
    static inline int rx_has(size_t room) {
    #if defined(__GLIBC__)
        static __thread char* end = NULL;
        if (end == NULL) {
            pthread_attr_t mine;
            size_t size;
            if (pthread_getattr_np(pthread_self(), &mine) != 0) return 1;
            pthread_attr_getstack(&mine, (void**)&end, &size);
            pthread_attr_destroy(&mine);
        }
        return (size_t)((char*)__builtin_frame_address(0) - end) >= room;
    #else
        return 1;
    #endif
    }

    static void rx_fresh(void) {
        pthread_mutex_init(&rx_mutex, NULL);
        pthread_cond_init(&rx_wake, NULL);
        rx_core = -1;
    }
    """
    enum:
        MOST "RX_MOST"
    ctypedef struct pthread_mutex_t:
        pass
    ctypedef struct pthread_cond_t:
        pass
    pthread_mutex_t rx_mutex  # held by a thread that goes to sleep, or knows that one does
    pthread_cond_t rx_wake  # wakes all sleeping threads
    int pthread_mutex_lock(pthread_mutex_t*) nogil
    int pthread_mutex_unlock(pthread_mutex_t*) nogil
    int pthread_cond_wait(pthread_cond_t*, pthread_mutex_t*) nogil
    int pthread_cond_broadcast(pthread_cond_t*) nogil
    int pthread_atfork(void (*prepare)() noexcept nogil, void (*parent)() noexcept nogil, void (*child)() noexcept nogil)
    int64_t rx_load(const int64_t*) nogil
    void rx_store(int64_t*, int64_t) nogil
    int64_t rx_add(int64_t*, int64_t) nogil
    bint rx_swap(int64_t*, int64_t*, int64_t) nogil
    void rx_rest(int64_t) nogil
    int64_t rx_now() nogil
    bint rx_start_worker(void* (*)(void*) noexcept nogil, int64_t, size_t) nogil
    void rx_spread(int) nogil
    void rx_follow(int) nogil
    bint rx_apart(void* (*)(void*) noexcept nogil, void*, size_t) nogil
    bint rx_has(size_t) nogil
    void rx_fresh() nogil

cdef enum:
    LINE = 8  # longs in a cache line
    LOOKS = 64  # checks for new work between two looks at the clock
    PATIENCE_NS = 200_000  # how long a worker spins
    ROOM = 5 << 19  # bytes of stack that must be free: an item takes at most 1.7 MB (reductions/schedule_rules.py)
    STACK = 1 << 22  # bytes of a worker's stack

cdef struct Job:
    Work work
    void* what
    int64_t things
    int64_t members
    int64_t status  # the error of one of them, or 0

cdef struct ShareRequest:  # of share_out, for a thread without stack
    Work work
    void* what
    int things
    int members
    int status

cdef Job job
cdef int64_t shares[MOST * LINE]  # for each member, a line each: members of the job << 32 | units left of the share
cdef int64_t pending[LINE]  # unfinished units of the job
cdef int64_t jobs[LINE]  # the number of jobs so far
cdef int64_t asleep[LINE]  # the number of sleeping workers
cdef int64_t busy[LINE]  # 1: the pool is working
cdef int64_t begun = 1  # the number of members so far

job.members = 1


cdef int share_out(Work work, void* what, int things, int members) noexcept nogil:
    cdef int64_t free = 0
    cdef int n, status
    cdef ShareRequest call
    if not rx_has(ROOM):
        call = ShareRequest(work, what, things, members, -1)
        if rx_apart(answer, &call, STACK):
            return call.status
    if members < 2 or things < 2 or not rx_swap(&busy[0], &free, 1):
        return work(what, 0, 0, things)
    members = complete(min(members, things, MOST))
    job.work, job.what, job.things, job.status = work, what, things, 0
    rx_store(&job.members, members)
    rx_store(&pending[0], things)
    for n in range(members):
        rx_store(&shares[n * LINE], (<int64_t> members << 32) | (begin_of(n + 1) - begin_of(n)))
    rx_add(&jobs[0], 1)
    if rx_load(&asleep[0]) > 0:
        pthread_mutex_lock(&rx_mutex)  # a thread that counts as asleep holds it until it waits for the condition
        pthread_mutex_unlock(&rx_mutex)
        pthread_cond_broadcast(&rx_wake)
    take_part(0)
    wait_while(&pending[0])
    status = <int> rx_load(&job.status)
    rx_store(&busy[0], 0)
    return status


cdef void* answer(void* call) noexcept nogil:
    """Makes a call in this thread instead."""
    cdef ShareRequest* request = <ShareRequest*> call
    request.status = share_out(request.work, request.what, request.things, request.members)
    return NULL


cdef inline int64_t begin_of(int64_t member) noexcept nogil:
    """The first unit of a member's share."""
    return job.things * member // job.members


cdef void take_part(int who) noexcept nogil:
    """Processes the remaining units, as that member. A member that has taken a unit knows the job: it does not end
    before."""
    cdef int64_t members = rx_load(&job.members)
    cdef int64_t n, other, share_state, some, rest
    cdef int64_t* share
    cdef int status
    for n in range(members):
        other = (who + n) % members
        share = &shares[other * LINE]
        share_state = rx_load(share)
        while (share_state >> 32) > who:
            rest = share_state & ((<int64_t> 1 << 32) - 1)
            if rest == 0:
                break
            some = (rest + 1) // 2
            if not rx_swap(share, &share_state, share_state - some):
                continue
            status = job.work(job.what, who, <int> (begin_of(other + 1) - rest), <int> some)
            if status != 0:
                rx_store(&job.status, status)
            rx_add(&pending[0], -some)
            share_state = rx_load(share)


cdef void wait_while(int64_t* count) noexcept nogil:
    """Waits until it is 0."""
    cdef int64_t waits = 0
    while rx_load(count) != 0:
        rx_rest(waits)
        waits += 1


cdef void* worker(void* number) noexcept nogil:
    """A worker, the member of that number."""
    cdef int64_t job_count
    while True:
        job_count = rx_load(&jobs[0])
        take_part(<int> <intptr_t> number)
        wait_for_more(job_count)


cdef void wait_for_more(int64_t job_count) noexcept nogil:
    """Waits until there have been more jobs than `job_count`."""
    cdef int64_t until = rx_now() + PATIENCE_NS
    cdef int64_t waits = 0
    while rx_load(&jobs[0]) == job_count:
        rx_rest(waits)
        waits += 1
        if waits % LOOKS == 0 and rx_now() > until:
            pthread_mutex_lock(&rx_mutex)
            rx_add(&asleep[0], 1)
            while rx_load(&jobs[0]) == job_count:
                pthread_cond_wait(&rx_wake, &rx_mutex)
            rx_add(&asleep[0], -1)
            pthread_mutex_unlock(&rx_mutex)


cdef int complete(int members) noexcept nogil:
    """Starts workers until there are so many members. Returns how many there are. None is on this thread's core."""
    global begun
    if begun < members:
        while begun < members and rx_start_worker(worker, begun, STACK):
            begun += 1
        rx_spread(<int> begun)
    rx_follow(<int> begun)
    return min(members, <int> begun)


cdef void forked() noexcept nogil:
    """In a forked process, only the thread that forked exists."""
    global begun
    begun = 1
    rx_fresh()
    rx_store(&asleep[0], 0)
    rx_store(&busy[0], 0)


pthread_atfork(NULL, NULL, forked)

# cython: cdivision=True, boundscheck=False, wraparound=False
"""Calls of executors with storage, now or later.

A long call, or one of a program whose kernels are still being built, runs in one separate thread, in the order of the
calls. A short one whose arguments are ready runs in the calling thread, since waking another thread takes longer. The
expected time of a program is that of the shorter one of its last two calls. A program that calls Python functions never
runs in the separate thread. That thread needs nothing from Python but the kernels that it waits for: otherwise, no
holder of the GIL can block it, and the process may end while it works.

A donated argument may be overwritten if only queued calls refer to it, since they run before. Callers can run ahead of
the thread only by a limited number of calls and a limited time.
"""

from cpython.exc cimport PyErr_CheckSignals
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport calloc, free

from refxla._core.errors cimport Error, copy_of, plain_error, python_error
from refxla._core.executor cimport INTERRUPTED, PENDING, Executor
from refxla._core.pjrt_interface cimport CANCELLED, FAILED_PRECONDITION, INTERNAL, RESOURCE_EXHAUSTED
from refxla._core.storage cimport (
    Completion,
    Storage,
    add,
    complete,
    device_data,
    drop,
    drop_completion,
    failure_of,
    forget_host,
    hold,
    hold_completion,
    is_done,
    is_exclusive,
    host_data,
    is_written,
    new_completion,
    new_device_storage,
    new_storage,
)

import atexit
import threading

cdef extern from "Python.h" nogil:
    ctypedef struct PyThreadState:
        pass
    int PyGILState_Check()
    PyThreadState* PyEval_SaveThread()
    void PyEval_RestoreThread(PyThreadState* state)
    long PyThread_get_thread_ident()
    int Py_AddPendingCall(int (*call)(void*) except -1, void* argument) noexcept

cdef extern from *:
    """
    #include <errno.h>
    #include <pthread.h>
    #include <signal.h>
    #include <stdint.h>
    #include <time.h>

    static pthread_mutex_t rx_mutex = PTHREAD_MUTEX_INITIALIZER;  /* of the queue */
    static pthread_cond_t rx_more = PTHREAD_COND_INITIALIZER;  /* there is a call */
    static pthread_cond_t rx_fewer = PTHREAD_COND_INITIALIZER;  /* a call has ended */

    static inline void rx_enter(void) { pthread_mutex_lock(&rx_mutex); }
    static inline void rx_leave(void) { pthread_mutex_unlock(&rx_mutex); }
    static inline void rx_wait_more(void) { pthread_cond_wait(&rx_more, &rx_mutex); }
    static inline void rx_tell_more(void) { pthread_cond_signal(&rx_more); }
    static inline void rx_tell_fewer(void) { pthread_cond_broadcast(&rx_fewer); }

    static inline int64_t rx_now(void) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        return now.tv_sec * (int64_t)1000000000 + now.tv_nsec;
    }

    /* In a forked child: its conditions have no waiters. A condition that still counts those of the parent would wait
       for them to leave. */
    static inline void rx_forget_waiters(void) {
        const pthread_cond_t none = PTHREAD_COND_INITIALIZER;
        rx_more = rx_fewer = none;
    }

    /* Waits until a call has ended, or so many nanoseconds. */
    static inline void rx_wait_fewer(int64_t ns) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        ns += until.tv_nsec;
        until.tv_sec += ns / 1000000000;
        until.tv_nsec = ns % 1000000000;
        pthread_cond_timedwait(&rx_fewer, &rx_mutex, &until);
    }

    /* Begins a thread that no signal interrupts; whether there is one. */
    static int rx_begin(void* (*run)(void*), size_t stack) {
        pthread_attr_t with;
        pthread_t thread;
        sigset_t all, before;
        if (pthread_attr_init(&with) != 0) return 0;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        const int begun = pthread_attr_setstacksize(&with, stack) == 0
            && pthread_attr_setdetachstate(&with, PTHREAD_CREATE_DETACHED) == 0
            && pthread_create(&thread, &with, run, 0) == 0;
        pthread_sigmask(SIG_SETMASK, &before, 0);
        pthread_attr_destroy(&with);
        return begun;
    }
    """
    void rx_enter() noexcept nogil
    void rx_leave() noexcept nogil
    void rx_wait_more() noexcept nogil
    void rx_tell_more() noexcept nogil
    void rx_tell_fewer() noexcept nogil
    void rx_forget_waiters() noexcept nogil
    int64_t rx_now() noexcept nogil
    void rx_wait_fewer(int64_t ns) noexcept nogil
    int rx_begin(void* (*run)(void*) noexcept nogil, size_t stack) noexcept nogil
    int pthread_atfork(void (*prepare)() noexcept nogil, void (*parent)() noexcept nogil, void (*child)() noexcept nogil)

cdef enum:
    SHORT_NS = 100_000  # a shorter call runs in the calling thread: waking another one takes a large part of that time
    MOST_CALLS = 32  # in the queue
    MOST_NS = 250_000_000  # of work in the queue, for which Control-C has to wait
    SIGNALS_NS = 20_000_000  # between two checks for signals
    PATIENCE_NS = 1_000_000_000  # from Control-C until the queue is cancelled, and the longest that a fork waits for it
    STACK = 16 << 20  # bytes of the thread's stack

cdef const char* LEFT_BEHIND = (
    b"this was still being computed when the process was forked: wait for it before the fork (block_until_ready), or "
    b"compute it again in the child"
)

cdef Call* _first = NULL  # in the queue; includes the one that is running
cdef Call* _last = NULL
cdef int _count = 0
cdef int64_t _work_ns = 0  # the expected time of the calls in the queue
cdef bint _begun = False  # whether there is a thread
cdef bint _ending = False  # whether Python is ending: nothing is deferred any more
cdef long _main_thread = threading.main_thread().ident


cdef bint in_main_thread() noexcept nogil:
    return PyThread_get_thread_ident() == _main_thread


# Calls ---------------------------------------------------------------------------------------------------------------


cdef Call* new_call(void* executor, int argument_count, int result_count) noexcept nogil:
    cdef size_t pointers = 2 * argument_count + result_count
    cdef Call* call = <Call*> calloc(1, sizeof(Call) + pointers * sizeof(void*) + argument_count)
    if call != NULL:
        call.executor, call.argument_count, call.result_count = executor, argument_count, result_count
        call.arguments = <Storage**> (call + 1)
        call.results = call.arguments + argument_count
        call.writers = <Completion**> (call.results + result_count)
        call.is_donated = <uint8_t*> (call.writers + argument_count)
    return call


cdef void end_call(Call* call) noexcept nogil:
    drop_storage(call)
    if call.ended != NULL:
        call.ended(call.owner)
    drop_completion(call.completion)
    free(call)


cdef void drop_storage(Call* call) noexcept nogil:
    cdef int n
    for n in range(call.argument_count + call.result_count):  # they are contiguous
        if call.arguments[n] != NULL and call.completion != NULL:
            add(&call.arguments[n].queued, -1)
        drop(call.arguments[n])
        call.arguments[n] = NULL
    for n in range(call.argument_count):
        drop_completion(call.writers[n])
        call.writers[n] = NULL


cdef int take_results(Call* call, const uint8_t* donated) noexcept nogil:
    cdef int n
    for n in range((<Executor> call.executor).aliasing.overwritten_count):
        take_argument(call, donated, (<Executor> call.executor).aliasing.overwritten[n].parameter,
                      (<Executor> call.executor).aliasing.overwritten[n].result)
    for n in range(call.result_count):
        if call.results[n] != NULL:
            continue
        call.results[n] = new_result(call, n)
        if call.results[n] == NULL and _count:  # calls in the queue will return memory
            wait_for_all()
            call.results[n] = new_result(call, n)
        if call.results[n] == NULL:
            return -1
    return 0


cdef Storage* new_result(Call* call, int n) noexcept nogil:
    """Storage that the executor's kernels can access; NULL: no memory."""
    cdef size_t size = (<Executor> call.executor).signature.results[n].bytes
    if (<Executor> call.executor).device.space == NULL:
        return new_storage(size)
    return new_device_storage((<Executor> call.executor).device.space, size)


cdef void take_argument(Call* call, const uint8_t* donated, int parameter, int result) noexcept nogil:
    cdef Storage* storage = call.arguments[parameter]
    if not donated[parameter] or not is_exclusive(storage):
        return
    call.is_donated[parameter] = 1
    if result >= 0:
        hold(storage)
        call.results[result] = storage


cdef bint is_deferred(Call* call) noexcept nogil:
    cdef int n
    if (<Executor> call.executor).calls_host or (<Executor> call.executor).trace.events != NULL or _ending:
        return False  # it calls Python, or is traced by a thread that waits for it
    if (<Executor> call.executor).assembly == PENDING or (<Executor> call.executor).usual_ns >= SHORT_NS:
        return True
    if _count == 0:
        return False
    for n in range(call.argument_count):
        # A queued call writes the argument, or reads memory that this call would overwrite.
        if not is_written(call.arguments[n]) or (call.is_donated[n] and call.arguments[n].queued):
            return True
    return False


cdef Error* run_now(Call* call, bint* interrupted) noexcept nogil:
    cdef int n
    cdef Error* error = NULL
    for n in range(call.argument_count):
        if not is_written(call.arguments[n]):
            wait_for(call.arguments[n].writer)
        if call.is_donated[n] and call.arguments[n].queued:  # queued calls read memory that this call overwrites
            wait_for_all()
        error = failure_of(call.arguments[n])
        if error != NULL:
            return error
    error = run(call, interrupted)
    for n in range(call.result_count):  # of an argument that was overwritten
        if call.results[n] != NULL and call.results[n].writer != NULL:
            drop_completion(call.results[n].writer)
            call.results[n].writer = NULL
    return error


cdef Error* run(Call* call, bint* interrupted) noexcept nogil:
    """Runs in this thread. An error that kept an argument from being written also keeps the results from it."""
    cdef int n, status
    cdef Error* error = NULL
    for n in range(call.argument_count):
        if call.writers[n] != NULL and call.writers[n].error != NULL:
            return copy_of(call.writers[n].error)
    wait_for_kernels(call)
    if call.cancelled:
        return plain_error(CANCELLED, "the computation was interrupted")
    status = (<Executor> call.executor).acquire()
    if status:
        return failure(call, status, interrupted)
    for n in range(call.argument_count):
        if error == NULL and not place_argument(call, n):
            error = plain_error(RESOURCE_EXHAUSTED, "the device has no memory for the arguments of a call")
    if error == NULL:
        for n in range(call.result_count):
            if (<Executor> call.executor).device.space == NULL:
                (<Executor> call.executor).outputs[n] = call.results[n].data
            else:
                (<Executor> call.executor).device.outputs[n] = call.results[n].handle
        if call.completion != NULL:
            (<Executor> call.executor).cancelled = &call.cancelled
        status = (<Executor> call.executor).run()
        (<Executor> call.executor).cancelled = NULL
        if status:
            error = failure(call, status, interrupted)
    if (<Executor> call.executor).device.space != NULL:  # the next call may be one with NumPy arrays, which does not set them
        for n in range(call.argument_count):
            (<Executor> call.executor).device.inputs[n] = NULL
        for n in range(call.result_count):
            (<Executor> call.executor).device.outputs[n] = NULL
    (<Executor> call.executor).release()
    return error


cdef void wait_for_kernels(Call* call) noexcept nogil:
    """Waits while another thread assembles the executor, unless the call is cancelled."""
    cdef PyThreadState* state = NULL
    if (<Executor> call.executor).assembly != PENDING:
        return
    if PyGILState_Check():  # that thread needs it
        state = PyEval_SaveThread()
    rx_enter()
    while (<Executor> call.executor).assembly == PENDING and not call.cancelled:
        rx_wait_fewer(SIGNALS_NS)
    rx_leave()
    if state != NULL:
        PyEval_RestoreThread(state)


def wake() -> None:
    """Called when an executor has been assembled, or never will be: calls may wait for it."""
    rx_enter()
    rx_tell_fewer()
    rx_leave()


cdef bint place_argument(Call* call, int n) noexcept nogil:
    """Tells the executor the address at which its kernels reach an argument. Returns whether it is there."""
    cdef Storage* storage = call.arguments[n]
    (<Executor> call.executor).aliasing.is_donated[n] = call.is_donated[n]
    if (<Executor> call.executor).device.space == NULL:
        (<Executor> call.executor).inputs[n] = host_data(storage)
        return (<Executor> call.executor).inputs[n] != NULL or storage.bytes == 0
    (<Executor> call.executor).device.inputs[n] = device_data(storage, (<Executor> call.executor).device.space)
    if call.is_donated[n]:
        forget_host(storage)
    return (<Executor> call.executor).device.inputs[n] != NULL


cdef Error* failure(Call* call, int status, bint* interrupted) noexcept nogil:
    """The error that a run ended with. An exception of a signal handler, or one by which a host function asks the
    program to end, is not an error of the run: it is raised again, unchanged, as soon as the main thread is back in
    Python."""
    if call.cancelled:
        return plain_error(CANCELLED, "the computation was interrupted")
    with gil:
        try:
            (<Executor> call.executor).fail(status)
        except BaseException as error:
            if status == INTERRUPTED and raise_later(error):
                interrupted[0] = True
                return NULL
            return python_error(error)
    return plain_error(INTERNAL, "a run ended with an error that has no name")


cdef bint raise_later(object error) noexcept:
    """Has an exception raised in the main thread. Returns whether it will be."""
    if Py_AddPendingCall(raise_again, <void*> error):
        return False
    Py_INCREF(error)
    return True


cdef int raise_again(void* error) except -1 with gil:
    raised = <object> error
    Py_DECREF(raised)
    raise raised


# The thread ----------------------------------------------------------------------------------------------------------


cdef Completion* run_later(Call* call) noexcept nogil:
    global _first, _last, _count, _work_ns, _begun
    cdef int n
    cdef Completion* completion = new_completion()
    if completion == NULL:
        return NULL
    make_room()
    rx_enter()
    if not _begun and rx_begin(work, STACK):
        _begun = True
    if not _begun:
        rx_leave()
        drop_completion(completion)
        return NULL
    call.completion = completion
    hold_completion(completion)  # the caller's
    call.expected_ns = (<Executor> call.executor).usual_ns
    for n in range(call.argument_count + call.result_count):
        add(&call.arguments[n].queued, 1)
    for n in range(call.argument_count):
        call.writers[n] = call.arguments[n].writer
        if call.writers[n] != NULL:
            hold_completion(call.writers[n])
    for n in range(call.result_count):
        hold_completion(completion)
        drop_completion(call.results[n].writer)
        call.results[n].writer = completion
    call.next = NULL
    if _last == NULL:
        _first = call
    else:
        _last.next = call
    _last = call
    _count += 1
    _work_ns += call.expected_ns
    rx_tell_more()
    rx_leave()
    return completion


cdef void* work(void* nothing) noexcept nogil:
    """The thread's main loop, until the process ends."""
    global _first, _last, _count, _work_ns
    cdef Call* call
    cdef Error* error
    cdef bint interrupted
    while True:
        rx_enter()
        while _first == NULL:
            rx_wait_more()
        call = _first
        rx_leave()
        interrupted = False
        error = run(call, &interrupted)
        drop_storage(call)
        complete(call.completion, error)
        rx_enter()
        _first = call.next
        if _first == NULL:
            _last = NULL
        _count -= 1
        _work_ns -= call.expected_ns
        rx_tell_fewer()
        rx_leave()
        end_call(call)
    return NULL


cdef void make_room() noexcept nogil:
    """Waits if callers have run too far ahead, until half of the queue is done: waking up for each call takes long."""
    cdef Completion* completion
    cdef Call* call
    cdef int64_t work_ns
    cdef int n
    rx_enter()
    if _first == NULL or (_count < MOST_CALLS and (_count < 2 or _work_ns < MOST_NS)):
        rx_leave()
        return
    call, n, work_ns = _first, 1, _work_ns - _first.expected_ns
    while call.next != NULL and call.next != _last and (_count - n > MOST_CALLS // 2 or work_ns > MOST_NS // 2):
        call = call.next
        n += 1
        work_ns -= call.expected_ns
    completion = call.completion
    hold_completion(completion)
    rx_leave()
    wait_for(completion)
    drop_completion(completion)


cdef void wait_for_all() noexcept nogil:
    """Waits for all calls that are in the queue now."""
    cdef Completion* completion = NULL
    rx_enter()
    if _last != NULL:
        completion = _last.completion
        hold_completion(completion)
    rx_leave()
    if completion != NULL:
        wait_for(completion)
        drop_completion(completion)


cdef bint wait_for(Completion* completion) noexcept nogil:
    cdef PyThreadState* state = NULL
    cdef bint answers
    cdef int64_t cancel_at = 0
    if is_done(completion):
        return False
    answers = in_main_thread()
    if PyGILState_Check():
        state = PyEval_SaveThread()
    while not is_done(completion):
        rx_enter()
        if not is_done(completion):
            rx_wait_fewer(SIGNALS_NS)
        rx_leave()
        if answers and cancel_at == 0 and not is_done(completion) and is_interrupted():
            cancel_at = rx_now() + PATIENCE_NS
        if cancel_at and rx_now() > cancel_at:
            cancel_all()
    if state != NULL:
        PyEval_RestoreThread(state)
    return cancel_at != 0


cdef bint is_interrupted() noexcept with gil:
    """Lets Python's signal handlers run. Returns whether one of them raised (Control-C does); the exception is raised
    again later."""
    try:
        PyErr_CheckSignals()
    except BaseException as error:
        raise_later(error)
        return True
    return False


cdef void cancel_all() noexcept nogil:
    """Ends the running call in its next loop iteration, and cancels those after it."""
    cdef Call* call
    rx_enter()
    call = _first
    while call != NULL:
        call.cancelled = 1
        call = call.next
    rx_leave()


# The process ---------------------------------------------------------------------------------------------------------


def finish() -> None:
    """Called when Python ends: waits for the running call, which is cancelled if it takes long, drops those that have
    not begun, and defers nothing any more."""
    global _ending
    cdef Call* call
    cdef int64_t cancel_at = rx_now() + PATIENCE_NS
    with nogil:
        _ending = True
        rx_enter()
        if _first != NULL:
            call = _first.next
            while call != NULL:
                call.cancelled = 1
                call = call.next
        while _first != NULL:
            rx_wait_fewer(SIGNALS_NS)
            if _first != NULL and rx_now() > cancel_at:
                _first.cancelled = 1
        rx_leave()


def in_flight() -> int:
    """The number of calls in the queue."""
    return _count


def settle() -> None:
    """Called before a fork: waits for the calls in the queue, which the child cannot run, unless that takes long."""
    cdef int64_t until = rx_now() + PATIENCE_NS
    with nogil:
        rx_enter()
        while _first != NULL and rx_now() < until:
            rx_wait_fewer(SIGNALS_NS)
        rx_leave()


cdef void before_fork() noexcept nogil:
    rx_enter()


cdef void after_fork() noexcept nogil:
    rx_leave()


cdef void after_fork_in_child() noexcept nogil:
    """A forked child does not have the thread: nothing executes its queue there, and what is still in it fails."""
    global _first, _last, _count, _work_ns, _begun
    cdef Call* call = _first
    while call != NULL:  # their memory is left alone: the thread may have been using it
        if not is_done(call.completion):
            call.completion.lock = 0  # whoever held it is not here
            call.completion.callbacks = NULL  # of threads that are not here
            complete(call.completion, plain_error(FAILED_PRECONDITION, LEFT_BEHIND))
        call = call.next
    _first, _last, _count, _work_ns, _begun = NULL, NULL, 0, 0, False
    rx_forget_waiters()
    rx_leave()


pthread_atfork(before_fork, after_fork, after_fork_in_child)
atexit.register(finish)

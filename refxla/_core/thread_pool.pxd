"""The thread pool that shares the items of a launch: the calling thread and persistent workers."""

# Processes `count` units, from number `begin` on, as member `who` of the pool (0: the calling thread). Returns 0, or an
# error.
ctypedef int (*Work)(void* what, int who, int begin, int count) noexcept nogil

# Processes so many units, shared among at most `members` threads. Returns the error of any of them, or 0. If the
# calling thread has a small stack, other threads do the work.
cdef int share_out(Work work, void* what, int things, int members) noexcept nogil

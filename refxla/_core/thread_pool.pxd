"""The pool of threads that share the items of a launch: the one that calls, and workers that the process keeps."""

# Does `count` things, from number `begin` on, as member `who` of the pool (0: the calling thread); 0, or an error.
ctypedef int (*Work)(void* what, int who, int begin, int count) noexcept nogil

# Do so many things, shared out among at most `members` threads; the error of any of them, or 0. Where the calling thread
# has a small stack, others do it.
cdef int share_out(Work work, void* what, int things, int members) noexcept nogil

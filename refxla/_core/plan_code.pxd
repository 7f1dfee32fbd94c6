# The instructions of the code that the steps of a plan become: see plan_code.pyx.

cdef enum:
    LAUNCH
    COPY
    CALL
    LIBRARY
    LAST_WORK = LIBRARY  # up to here, an instruction does work; those that follow say which comes next
    JUMP
    UNLESS
    BEGIN
    POLL
    SWITCH
    REPEAT
    NEXT
    END


cdef class PlanCode:
    cdef readonly object plan
    cdef readonly list code
    cdef readonly list launches
    cdef readonly list host_calls
    cdef readonly list library_calls
    cdef readonly int repeats

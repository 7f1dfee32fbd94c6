# The instructions of the code that the steps of a plan become: see plan_code.pyx.

cdef enum:
    LAUNCH
    COPY
    CALL
    LIBRARY
    JUMP
    UNLESS
    SWITCH
    REPEAT
    NEXT
    END

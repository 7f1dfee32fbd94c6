# The cost model of instruction fusion: see fusion_costs.pyx.

from refxla._core.graph cimport Graph
from refxla._core.groups cimport Group

cdef class FusionCosts:
    cdef Graph g
    cdef double byte_ns, operation_ns, launch_ns, phase_ns  # see Costs of device/description.py
    cdef long long cache_bytes  # a larger value does not stay in a core's caches
    cdef bint shared       # kernels share launches
    cdef bint in_sequence  # the body of a loop with short iterations

    cdef bint stays_in_cache(self, int p)
    cdef double evaluations_of(self, Group group, int p, list edges, int tag)
    cdef bint is_repeated(self, int p, dict fits)
    cdef (double, double) times(self, int p, dict fits, dict users, bint repeated)
    cdef double _launch_of(self, int p, double count, bint tested)
    cdef bint copies_much(self, int p, long long maps)
    cdef bint is_of_many_cases(self, int p)
    cdef bint is_long_epilogue(self, Group group, int p)

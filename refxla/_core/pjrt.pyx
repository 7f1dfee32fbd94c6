"""The table of PJRT functions that JAX gets.

Functions that the table does not have answer UNIMPLEMENTED. Two of these are called all the same, whatever they answer.
"""

from cpython.pycapsule cimport PyCapsule_New
from libc.stdint cimport int64_t

from refxla._core cimport pjrt_client, pjrt_executable, pjrt_objects
from refxla._core.errors cimport Error, plain_error
from refxla._core.pjrt_interface cimport *


cdef PjrtApi api
cdef NamedValue attributes[3]
cdef int64_t versions[3][3]
cdef int attribute_count = 0


cdef Error* unimplemented(SubjectArgs* args) noexcept nogil:
    return plain_error(UNIMPLEMENTED, "refxla does not have this function of PJRT's interface")


cdef Error* plugin_attributes(PluginArgs* args) noexcept nogil:
    args.attributes, args.count = attributes, attribute_count
    return NULL


def interface(stablehlo: dict[str, tuple[int, int, int]]) -> object:
    """The table, as a capsule with the name that JAX expects. `stablehlo` has versions of StableHLO: "current", in
    which programs should be, and "minimum", the oldest that is supported."""
    global attribute_count
    cdef int n, d
    for n, (name, version) in enumerate(stablehlo.items()):
        key = {"current": b"stablehlo_current_version", "minimum": b"stablehlo_minimum_version"}[name]
        _texts.append(key)
        for d in range(3):
            versions[n][d] = version[d]
        attributes[n].size, attributes[n].name, attributes[n].name_size = sizeof(NamedValue), <const char*> key, len(key)
        attributes[n].kind, attributes[n].value.integers, attributes[n].value_size = INTEGERS, versions[n], 3
        attribute_count = n + 1
    return PyCapsule_New(&api, "pjrt_c_api", NULL)


_texts = []  # keeps the memory of C strings


cdef void fill() noexcept nogil:
    cdef int n
    api.size, api.extensions = sizeof(PjrtApi), NULL
    api.version.size, api.version.extensions = sizeof(Version), NULL
    api.version.major, api.version.minor = MAJOR_VERSION, MINOR_VERSION
    for n in range(FUNCTIONS):
        api.functions[n] = <void*> unimplemented
    api.functions[PLUGIN_ATTRIBUTES] = <void*> plugin_attributes
    pjrt_client.add_functions(api.functions)
    pjrt_objects.add_functions(api.functions)
    pjrt_executable.add_functions(api.functions)


fill()

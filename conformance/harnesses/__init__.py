"""JAX's own programs: the harnesses of its primitives, run by the compiler and by JAX itself.

    refxla-conformance harnesses [PATTERN ...] [--each N | --all] [--seed N] [-j N] [--json FILE]

JAX's wheel contains some 7,500 small programs over 130 primitives (`jax._src.internal_test_util.test_harnesses`, which
needs absl-py). Each is lowered by the installed JAX, compiled, and its results are checked against the contract and
compared with those of JAX's CPU. So a single command reveals what a new JAX lowers differently. A sample takes minutes,
all of them hours. Worker processes keep one program that crashes from ending the others (worker.py).
"""

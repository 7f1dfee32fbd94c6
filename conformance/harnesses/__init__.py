"""JAX's own programs: the harnesses of its primitives, put to the compiler and to JAX itself.

    refxla-conformance harnesses [PATTERN ...] [--each N | --all] [--seed N] [-j N] [--json FILE]

JAX's wheel carries some 7,500 small programs over 130 primitives (`jax._src.internal_test_util.test_harnesses`, which
needs absl-py). Each is lowered by the JAX that is installed, compiled, and its results are held to the contract; what
JAX's CPU gives is set beside them. So what a new JAX writes differently shows itself at one command. A sample takes
minutes, all of them hours. Worker processes keep one program that crashes from ending the others (worker.py).
"""

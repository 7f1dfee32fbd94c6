"""StableHLO's own tests, read from a checkout of its repository, put to a target.

    python -m refxla_conformance.stablehlo_data CHECKOUT [--target reference] [--only GLOB] [--json OUT] [-j 2]

Its tests hold their inputs and what they expect: `stablehlo/testdata` (made by JAX), `stablehlo/tests/interpret`
(written by hand) and `stablehlo/tests/math` (made by mpmath). Each is taken apart into inputs, a program and expected
values (extract.py), the program is converted to HLO by jaxlib, run, and checked twice: with the tolerance of the test
(checks.py), and against the bounds of the numeric contract (worker.py).
"""

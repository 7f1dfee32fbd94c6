"""What the tests of the structured operations share: the specification, XLA:CPU, and how the two must agree.

What moves data, counts or compares must agree in every bit. Sums agree within n * eps * sum |terms|, the error bound of
any order of n additions: `magnitude` is the same program on absolute values.
"""

from __future__ import annotations

import numpy as np
import pytest
from refxla_spec import interpreter
from refxla_spec.text import parse
from refxla_spec.types import ELEMENT_TYPES, Shape
from refxla_spec.verify import verify

APPROX_TOP_K = """HloModule m
greater { a = f32[] parameter(0)
          b = f32[] parameter(1)
          i = s32[] parameter(2)
          j = s32[] parameter(3)
          ROOT r = pred[] compare(a, b), direction=GT }
ENTRY main { x = f32[2,4] parameter(0)
             i = s32[2,4] iota(), iota_dimension=1
             low = f32[] constant(-inf)
             none = s32[] constant(-1)
             ROOT r = (f32[2,2], s32[2,2]) custom-call(x, i, low, none), custom_call_target="ApproxTopK",
                      called_computations={greater}, backend_config={top_k = 2 : i64, reduction_dim = 1 : i64} }"""


def run(hlo: str, *inputs: np.ndarray) -> list[np.ndarray]:
    """The results of a program, or of the lines of an ENTRY computation, verified first."""
    module = parse(hlo if "ENTRY" in hlo else f"HloModule test\nENTRY main {{\n{hlo}\n}}")
    verify(module)
    value = interpreter.run(module, inputs)
    return list(value) if isinstance(value, tuple) else [value]


def xla(hlo: str, *inputs: np.ndarray) -> list[np.ndarray]:
    oracle = pytest.importorskip("refxla_conformance.targets.xla_cpu")
    return oracle.xla_cpu(hlo if "ENTRY" in hlo else f"HloModule test\nENTRY main {{\n{hlo}\n}}", inputs)


def check_equal(hlo: str, *inputs: np.ndarray) -> None:
    for got, want in zip(run(hlo, *inputs), xla(hlo, *inputs), strict=True):
        assert got.dtype == want.dtype
        if got.dtype.name == "bfloat16":  # NumPy does not know that its NaNs are NaNs
            got, want = got.astype(np.float32), want.astype(np.float32)
        np.testing.assert_array_equal(got, want, err_msg=hlo)


def check_sums(hlo: str, *inputs: np.ndarray, terms: int) -> None:
    """Like check_equal, within the bound of sums of `terms` terms; exactly for integers."""
    magnitudes = run(hlo, *(np.abs(i).astype(i.dtype) for i in inputs))
    for got, want, magnitude in zip(run(hlo, *inputs), xla(hlo, *inputs), magnitudes, strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape
        if got.dtype.kind in "biu":
            np.testing.assert_array_equal(got, want, err_msg=hlo)
            continue
        eps = {"bfloat16": 2.0**-8, "float16": 2.0**-11}.get(got.dtype.name) or np.finfo(got.dtype).eps
        wide = np.complex128 if got.dtype.kind == "c" else np.float64
        error = np.abs(got.astype(wide) - want.astype(wide))
        bound = 2 * (terms + 1) * eps * np.abs(magnitude.astype(wide))
        assert (error <= bound).all(), f"{hlo}\nerror {error.max()}, {(error > bound).sum()} of {error.size} beyond"


def values(rng: np.random.Generator, element_type: str, dims: tuple[int, ...]) -> np.ndarray:
    dtype = ELEMENT_TYPES[element_type].dtype
    kind = ELEMENT_TYPES[element_type].kind
    if kind in ("signed", "unsigned"):
        bits = ELEMENT_TYPES[element_type].bits
        low = -(2 ** (bits - 1)) if kind == "signed" else 0
        return rng.integers(low, low + 2**bits - 1, dims, endpoint=True, dtype=dtype)
    if kind == "pred":
        return rng.random(dims) < 0.5
    if kind == "complex":
        return (rng.standard_normal(dims) + 1j * rng.standard_normal(dims)).astype(dtype)
    return np.asarray(rng.standard_normal(dims)).astype(dtype)


def shape(element_type: str, dims: tuple[int, ...]) -> str:
    return str(Shape.array(element_type, dims))


def reducer(name: str, opcode: str, element_type: str) -> str:
    t = element_type
    return f"{name} {{ a = {t}[] parameter(0)\n b = {t}[] parameter(1)\n ROOT c = {t}[] {opcode}(a, b) }}\n"


def neutral(opcode: str, element_type: str) -> float:
    """The neutral element of a reducer; with any other initial value a reduction has no one meaning."""
    if opcode in ("add", "multiply"):
        return 0 if opcode == "add" else 1
    if ELEMENT_TYPES[element_type].is_float:
        return -np.inf if opcode == "maximum" else np.inf
    limits = np.iinfo(ELEMENT_TYPES[element_type].dtype)
    return limits.min if opcode == "maximum" else limits.max

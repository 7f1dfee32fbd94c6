"""The oracle itself: what the other tests take its word for."""

import ml_dtypes
import numpy as np
import pytest

oracle = pytest.importorskip("refxla_conformance.targets.xla_cpu")

TEXT = """HloModule m
ENTRY e {
  a = bf16[64] parameter(0)
  b = bf16[64] parameter(1)
  c = bf16[64] multiply(a, b)
  d = bf16[64] add(c, a)
  e = f32[64] convert(d)
  f = s64[] constant(9007199254740993)
  ROOT t = (f32[64], s64[]) tuple(e, f)
}
"""


def test_results_come_in_order_with_their_types_and_every_rounding():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 64)).astype(ml_dtypes.bfloat16)
    got, wide = oracle.xla_cpu(TEXT, [a, b])
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, (a * b + a).astype(np.float32))
    assert wide.dtype == np.int64 and int(wide) == 9007199254740993


def test_refusal_is_an_error_with_xlas_words():
    assert oracle.xla_parses(TEXT)
    assert not oracle.xla_parses(TEXT.replace("multiply", "multiplied"))
    with pytest.raises(oracle.OracleError, match="multiplied"):
        oracle.xla_cpu(TEXT.replace("multiply", "multiplied"), [])


def test_proto_and_text_are_the_same_module():
    assert oracle.xla_text(oracle.xla_proto(TEXT)) == oracle.xla_prints(TEXT)


def test_an_abort_is_an_error_and_the_next_question_is_answered():
    aborts = "HloModule m\nENTRY e { a = s32[4] parameter(0) ROOT b = s32[4] get-tuple-element(a), index=0 }"
    with pytest.raises(oracle.OracleAborted, match="get-tuple-element"):
        oracle.xla_cpu(aborts, [np.arange(4, dtype=np.int32)])
    assert oracle.xla_parses(TEXT)

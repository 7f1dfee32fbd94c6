"""Programs that nobody here wrote: parsed, verified, printed, interpreted, and held against XLA:CPU."""

import pytest

pytest.importorskip("jax")
oracle = pytest.importorskip("refxla_conformance.targets.xla_cpu")

from agreement import assert_agree  # noqa: E402
from programs import PROGRAMS  # noqa: E402
from refxla_spec import equality, interpreter, text, verify  # noqa: E402

import refxla  # noqa: E402


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_text_is_read_and_written(program):
    hlo = program.hlo()
    module = text.parse(hlo)
    verify.verify(module)
    printed = text.print_module(module)
    assert equality.difference(text.parse(printed), module) is None
    assert oracle.xla_prints(printed) == oracle.xla_prints(hlo)


@pytest.mark.parametrize("program", PROGRAMS[::2], ids=str)
def test_what_xla_made_of_it_means_the_same(program):
    """XLA:CPU's optimized text: fusions, layouts, metadata with stack frames, backend configurations."""
    optimized = program.optimized_hlo()
    module = text.parse(optimized)
    verify.verify(module)
    printed = text.print_module(module)
    assert equality.difference(text.parse(printed), module) is None
    assert oracle.xla_prints(printed) == oracle.xla_prints(optimized)
    if "custom-call" not in optimized:
        assert_agree(interpreter.run(module, program.inputs()), oracle.xla_cpu(program.hlo(), program.inputs()))


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_reference_agrees_with_xla(program):
    hlo, inputs = program.hlo(), program.inputs()
    assert_agree(interpreter.run(text.parse(hlo), inputs), oracle.xla_cpu(hlo, inputs))


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_compiled_agrees_with_xla(program):
    hlo, inputs = program.hlo(), program.inputs()
    assert_agree(refxla.compile(hlo)(*inputs), oracle.xla_cpu(hlo, inputs))

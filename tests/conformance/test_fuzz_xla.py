"""Random programs on XLA:CPU: what is known of it excuses those results alone that depend on it."""

import ml_dtypes
import numpy as np
import pytest
from refxla_conformance.fuzz import steps, xla
from refxla_conformance.fuzz.generate import Sample, generate
from refxla_conformance.fuzz.prepared import divides, guarded, lifted, prepared
from refxla_conformance.fuzz.runs import different_bits, interpreted
from refxla_conformance.targets import Target
from refxla_conformance.targets.child import ChildDied
from refxla_conformance.targets.sized import at_their_sizes
from refxla_spec.compare import bits_equal
from refxla_spec.interpreter import Interpreter, run
from refxla_spec.text import parse
from refxla_spec.verify import verify

SEEDS = range(40, 64)


def sample(body: str, *arguments: np.ndarray) -> Sample:
    return Sample(0, parse(f"HloModule m\n\nENTRY main {{\n{body}\n}}\n"), arguments)


@pytest.mark.parametrize("form", [prepared, guarded, lifted], ids=lambda f: f.__name__)
def test_other_forms_of_a_program_are_valid_and_mean_the_same(form):
    changed = 0
    for seed in SEEDS:
        given = generate(seed)
        made = form(prepared(given))
        verify(made.module)
        wanted, got = (interpreted(s.module, s) for s in (given, made))
        assert not different_bits(wanted, got), seed
        changed += str(made.module) != str(given.module)
    assert changed


def test_fusions_are_calls_and_divisors_are_hidden():
    samples = (generate(seed) for seed in range(2000))
    fused = next(s for s in samples if any(i.opcode == "fusion" for i in s.module.instructions()))
    assert not any(i.opcode == "fusion" for i in prepared(fused).module.instructions())
    divided = guarded(sample("  a = s32[2] constant({1, 2})\n  ROOT b = s32[2] divide(a, a)"))
    assert divides(divided.module) and divided.module.entry.root.operands[1].operands[0].opcode == "opt-barrier"


def test_each_step_alone_gives_what_it_gives_in_the_program():
    seen = 0
    for seed in SEEDS:
        for step in steps.steps(prepared(generate(seed))):
            if step.instruction.opcode == "rng-get-and-update-state":
                continue
            with np.errstate(all="ignore"):
                value = Interpreter().evaluate(step.instruction, list(step.operands))
                for case in steps.cases(step):
                    verify(case.module)
                    assert bits_equal(run(case.module, case.inputs), value), case.hlo
                    seen += 1
    assert seen > 150


def test_a_step_whose_program_leaves_out_the_mark_of_a_size_has_its_operands():
    body = "  x = f32[4] parameter(0)\n  n = s32[] constant(3)\n"
    body += "  s = f32[4] set-dimension-size(x, n), dimensions={0}\n  ROOT r = f32[4] negate(s)"
    found = list(steps.steps(sample(body, np.arange(4, dtype=np.float32))))
    assert [s.instruction.opcode for s in found] == ["set-dimension-size", "negate", "copy"]
    for step in found[1:]:
        for case in steps.cases(step):
            verify(case.module)
            assert run(case.module, case.inputs).shape == (3,), case.hlo


def test_the_sign_of_a_nan_makes_a_difference_to_an_order_alone():
    body = "  a = f32[3] parameter(0)\n  b = f32[3] add(a, a)\n  ROOT t = (f32[2], s32[2]) topk(b), k=2, largest=true"
    seen = {s.instruction.opcode: steps.sees_sign(s) for s in
            steps.steps(sample(body, np.array([1, np.nan, np.nan], np.float32)))}  # fmt: skip
    assert seen["topk"] and not seen["add"]
    assert not any(map(steps.sees_sign, steps.steps(sample(body, np.array([1, 2, 3], np.float32)))))


class Wrong(Target):
    """The reference, but for one operation, that gives one more."""

    name = "xla-cpu"

    def __init__(self, opcode: str, dies: bool = False) -> None:
        self.opcode, self.dies = opcode, dies

    def run(self, module, arguments):
        if any(i.opcode == self.opcode for i in module.instructions()):
            if self.dies:
                raise ChildDied("its process ended with signal SIGSEGV")
            module = parse(str(module))
            for i in list(module.entry.instructions):
                if i.opcode == self.opcode:
                    more = parse(f"HloModule m\n\nENTRY e {{\n  one = {i.shape} constant(1)\n"
                                 f"  ROOT sum = {i.shape} add(one, one)\n}}\n").entry  # fmt: skip
                    one, total = more.instructions
                    at = module.entry.instructions.index(i) + 1
                    module.entry.replace({i: total})
                    total.operands = [i, one]
                    module.entry.instructions[at:at] = [one, total]
        value = run(module, arguments)
        return list(value) if isinstance(value, tuple) else [value]


class OfSixBits(Target):
    """The reference, but for the exponents of power, of which six bits count: the known difference."""

    name = "xla-cpu"

    def run(self, module, arguments):
        module = parse(str(module))
        for i in [i for i in module.entry.instructions if i.opcode == "power"]:
            exponent = i.operands[1]
            more = parse(f"HloModule m\n\nENTRY e {{\n  bits = {exponent.shape} constant(63)\n"
                         f"  ROOT low = {exponent.shape} and(bits, bits)\n}}\n").entry  # fmt: skip
            bits, low = more.instructions
            at = module.entry.instructions.index(i)
            module.entry.instructions[at:at] = [bits, low]
            low.operands, i.operands = [exponent, bits], [i.operands[0], low]
        value = run(module, arguments)
        return list(value) if isinstance(value, tuple) else [value]


BODY = """
  x = s32[] parameter(0)
  y = s32[] parameter(1)
  p = s32[] power(x, y)
  m = s32[] multiply(x, y)
  q = s32[] negate(p)
  ROOT t = (s32[], s32[]) tuple({})"""


def asked(monkeypatch, roots: str, exponent: int, target: Target) -> xla.Answer:
    monkeypatch.setattr(xla, "target", lambda without=(): target)
    return xla.check(sample(BODY.format(roots), np.array(3, np.int32), np.array(exponent, np.int32)))


def test_what_is_right_agrees(monkeypatch):
    assert asked(monkeypatch, "m, q", 65, Wrong("tan")).outcome == "agreed"


def test_a_known_difference_excuses_what_depends_on_it(monkeypatch):
    answer = asked(monkeypatch, "m, q", 65, OfSixBits())
    assert answer.outcome == "excused" and answer.why == ("integer power with a large exponent",)


def test_it_excuses_no_other_value(monkeypatch):
    answer = asked(monkeypatch, "m, q", 65, Wrong("power"))
    assert answer.outcome == "diverged" and "p alone" in answer.divergence.what


def test_it_excuses_nothing_where_it_does_not_apply(monkeypatch):
    answer = asked(monkeypatch, "m, q", 5, Wrong("power"))
    assert answer.outcome == "diverged" and "p alone" in answer.divergence.what


def test_it_excuses_no_other_result(monkeypatch):
    answer = asked(monkeypatch, "m, q", 65, Wrong("multiply"))
    assert answer.outcome == "diverged" and "m alone" in answer.divergence.what


def test_a_crash_that_is_not_known_is_a_divergence(monkeypatch):
    answer = asked(monkeypatch, "m, q", 65, Wrong("power", dies=True))
    assert answer.outcome == "diverged" and answer.died and answer.divergence.raised == "ChildDied"


def test_xla_agrees_and_a_crash_costs_a_program_nothing():
    pytest.importorskip("refxla_conformance.targets.xla_cpu")
    agreed = xla.check(sample("  a = f32[2] constant({1, 2})\n  ROOT b = f32[2] add(a, a)"))
    assert agreed.outcome == "agreed" and not agreed.died
    died = xla.check(sample("  a = s32[2] constant({0, 2})\n  ROOT b = s32[2] divide(a, a)"))
    if died.died:  # in jaxlib 0.10; newer ones fold such a quotient
        assert died.outcome == "excused" and died.why == (xla.QUOTIENTS,)
    else:
        assert died.outcome == "agreed"


SUM_OF_F8 = """
  x = f8e4m3fn[1,3,1] parameter(0)
  w = f8e4m3fn[3,1,1] constant({{{1}}, {{1}}, {{1}}})
  ROOT y = f8e4m3fn[1,1,1] convolution(x, w), window={size=3}, dim_labels=b0f_0io->b0f"""
TERMS = np.array([8, 0.5, 2**-9]).astype(ml_dtypes.float8_e4m3fn).reshape(1, 3, 1)  # 8.5 in f16, from which 8 comes


@pytest.mark.parametrize("told, outcome", [(8, "excused"), (9, "agreed"), (10, "diverged"), (7, "diverged")])
def test_a_sum_of_8_bit_floats_may_be_rounded_by_way_of_f16(monkeypatch, told, outcome):
    class Told(Target):
        name = "xla-cpu"

        def run(self, module, arguments):
            return [np.full((1, 1, 1), told, ml_dtypes.float8_e4m3fn)]

    monkeypatch.setattr(xla, "target", lambda without=(): Told())
    answer = xla.check(sample(SUM_OF_F8, TERMS))
    assert answer.outcome == outcome and answer.why == (("convolutions of 8-bit floats",) if told == 8 else ())


def test_a_size_that_no_array_has_is_a_divergence(monkeypatch):
    class Sized(Target):
        name = "xla-cpu"

        def run(self, module, arguments):
            return at_their_sizes(module, [np.arange(4, dtype=np.int32), np.int32(-1)])

    monkeypatch.setattr(xla, "target", lambda without=(): Sized())
    body = """  x = s32[4] parameter(0)
  n = s32[] constant(-1)
  ROOT y = s32[<=4] set-dimension-size(x, n), dimensions={0}"""
    answer = xla.check(sample(body, np.arange(4, dtype=np.int32)))
    assert answer.outcome == "diverged" and "s32[<=4] has the sizes [-1]" in answer.divergence.what

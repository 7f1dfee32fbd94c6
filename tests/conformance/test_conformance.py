"""The conformance suite tells right from wrong."""

import numpy as np
import pytest
from refxla_conformance import Case, Outcome, Target, check, collect
from refxla_conformance.case_check import check_many
from refxla_conformance.targets.compiled import Compiled
from refxla_conformance.targets.merge import can_merge, merge
from refxla_conformance.targets.reference import Reference
from refxla_spec.compare import bits_equal
from refxla_spec.errors import CompilerError, InputError, InvalidProgramError, UnsupportedError
from refxla_spec.operation import operations
from refxla_spec.text import parse
from refxla_spec.verify import verify


class Changed(Reference):
    """The reference with something done to its results."""

    name = "changed"

    def __init__(self, change):
        self.change = change

    def run(self, module, arguments):
        return self.change(super().run(module, arguments))


def outcomes(target, opcodes=("add", "exponential", "sort", "reduce")):
    chosen = [c for c in collect(opcodes, ["example"]) if any(e.size for e in c.expected)]  # empty: cannot be wrong
    return {check(case, target).outcome for case in chosen}


def one(hlo, *inputs, expected=None, opcode="add", kind="structured"):
    return Case("a", kind, opcode, hlo, tuple(np.asarray(i) for i in inputs), expected)


def test_every_operation_of_the_specification_has_an_example():
    assert {case.opcode for case in collect(kinds=["example"])} == set(operations())


def test_names_are_unique_and_say_kind_and_operation():
    cases = collect()
    assert len({case.name for case in cases}) == len(cases)
    assert all(case.name.startswith(f"{case.kind}/{case.opcode}/") for case in cases)


def test_wrong_results_fail():
    def flipped(results):
        return [~r if r.dtype == bool else (r.view(np.uint8) ^ 0x40).view(r.dtype) for r in results]

    assert outcomes(Changed(flipped)) == {Outcome.FAIL}
    assert outcomes(Changed(lambda results: [])) == {Outcome.FAIL}
    assert outcomes(Changed(lambda results: [r[..., None] for r in results])) == {Outcome.FAIL}
    assert outcomes(Changed(lambda results: 1 / 0)) == {Outcome.FAIL}


def test_a_refusal_is_not_a_failure():
    def refuses(results):
        raise UnsupportedError("not today")

    assert outcomes(Changed(refuses)) == {Outcome.UNSUPPORTED}

    def gets_lost(*_):
        raise CompilerError("a reduction in a loop")

    assert outcomes(Changed(gets_lost)) == {Outcome.FAIL}


def test_a_verifier_has_to_refuse_by_the_right_rule_and_nothing_else():
    negative = [c for c in collect() if c.is_negative][0]

    class Verifies(Reference):
        def __init__(self, error):
            self.error = error

        def verify(self, text):
            if self.error:
                raise self.error

    assert check(negative, Verifies(InvalidProgramError("no"))).outcome is Outcome.PASS
    assert check(negative, Verifies(InvalidProgramError("no", negative.constraint))).outcome is Outcome.PASS
    assert check(negative, Verifies(InvalidProgramError("no", "other_c9"))).outcome is Outcome.FAIL
    assert check(negative, Verifies(None)).outcome is Outcome.FAIL
    assert check(negative, Verifies(ValueError("crash"))).outcome is Outcome.FAIL
    assert check(negative, Verifies(UnsupportedError("no verifier"))).outcome is Outcome.UNSUPPORTED
    assert check(negative, Target()).outcome is Outcome.UNSUPPORTED
    assert outcomes(Verifies(InvalidProgramError("no"))) == {Outcome.FAIL}


UNARY = "x = f32[1] parameter(0)\nROOT y = f32[1] {}(x)"


def test_the_contract_is_what_is_compared_by():
    x = np.array([0.7], np.float32)
    up = Changed(lambda rs: [np.nextafter(r, np.float32(9)) for r in rs])
    far = Changed(lambda rs: [r * np.float32(1.00001) for r in rs])
    minus = Changed(lambda rs: [-r for r in rs])
    assert check(one(UNARY.format("exponential"), x), up).outcome is Outcome.PASS
    failed = check(one(UNARY.format("exponential"), x), far)
    assert failed.outcome is Outcome.FAIL and "ULP" in failed.reason
    exact = check(one(UNARY.format("sqrt"), x), up)
    assert exact.outcome is Outcome.FAIL and "1 ULP apart, and it has to be the same bits" in exact.reason
    assert "(of 0.7): " in exact.reason  # the operand of the element
    zero = np.zeros(1, np.float32)
    assert check(one(UNARY.format("sine"), zero), minus).outcome is Outcome.FAIL
    nan = np.full(1, np.nan, np.float32)
    assert check(one(UNARY.format("sine"), nan), minus).outcome is Outcome.PASS


def test_a_sum_has_the_bound_of_its_terms():
    hlo = """HloModule m
    add { a = f32[] parameter(0)
          b = f32[] parameter(1)
          ROOT c = f32[] add(a, b) }
    ENTRY e { x = f32[100] parameter(0)
              zero = f32[] constant(0)
              ROOT s = f32[] reduce(x, zero), dimensions={0}, to_apply=add }"""
    x = np.linspace(1, 2, 100, dtype=np.float32)
    for apart, outcome in ((50 * 2.0**-24 * 150, Outcome.PASS), (200 * 2.0**-24 * 150, Outcome.FAIL)):
        changed = Changed(lambda rs, apart=apart: [(rs[0] + apart).astype(np.float32)])
        assert check(one(hlo, x, opcode="reduce"), changed).outcome is outcome


def test_what_is_flushed_is_excused_only_for_a_target_that_flushes():
    class Flushes(Changed):
        flushes_subnormals = True

    tiny = np.array([1e-40], np.float32)
    case = one(UNARY.format("negate"), tiny, opcode="negate")
    zeros = [np.full(1, -0.0, np.float32)]
    assert check(case, Changed(lambda rs: zeros)).outcome is Outcome.FAIL
    assert check(case, Flushes(lambda rs: zeros)).outcome is Outcome.EXCUSED
    assert check(case, Flushes(lambda rs: [np.ones(1, np.float32)])).outcome is Outcome.FAIL


def test_filters():
    assert {c.opcode for c in collect(["add", "sort"])} == {"add", "sort"}
    assert {c.kind for c in collect(kinds=["counterexample"])} == {"counterexample"}
    assert [c.name for c in collect(names=["example/add/[01]"])] == ["example/add/0", "example/add/1"]
    with pytest.raises(InputError, match="'added' is not an operation.*did you mean"):
        collect(["added"])
    with pytest.raises(InputError, match="edges"):
        collect(kinds=["edges"])


def test_programs_are_merged_and_their_results_taken_apart():
    reducer = """HloModule m
    max {{ a = f32[] parameter(0)
          b = f32[] parameter(1)
          ROOT c = f32[] maximum(a, b) }}
    ENTRY e {{ x = f32[{0}] parameter(0)
              low = f32[] constant(-inf)
              ROOT s = f32[] reduce(x, low), dimensions={{0}}, to_apply=max }}"""
    pair = """x = s32[2] parameter(0)
    y = s32[2] parameter(1)
    z = s32[2] add(x, y)
    ROOT t = (s32[2], s32[2]) tuple(z, x)"""
    modules = [parse(text) for text in (reducer.format(3), pair, reducer.format(4), UNARY.format("negate"))]
    inputs = [[np.arange(p.shape.size).astype(p.shape.element_type.dtype) for p in m.entry.parameters] for m in modules]
    assert all(can_merge(m) for m in modules)
    whole = merge(modules)
    verify(whole)
    target = Reference()
    together = target.run(whole, [x for xs in inputs for x in xs])
    alone = [r for m, xs in zip(modules, inputs, strict=True) for r in target.run(m, xs)]
    assert len(together) == len(alone) == 5 and all(map(bits_equal, together, alone))
    assert not can_merge(parse("HloModule m, replica_count=2\nENTRY e { ROOT i = u32[] replica-id() }"))
    assert not can_merge(parse("ROOT t = token[] after-all()"))


@pytest.mark.parametrize(("device", "sizes"), [("pocl", [2]), ("pocl:gpu", [1, 1])])
def test_programs_are_merged_where_that_saves_time(device, sizes):
    class Counted(Compiled):
        def run(self, module, arguments):
            parameters.append(len(module.entry.parameters))
            return Reference().run(module, arguments)

    parameters = []
    programs = [(parse(UNARY.format(o)), [np.ones(1, np.float32)]) for o in ("negate", "sqrt")]
    results = Counted(device).run_many(programs)
    assert parameters == sizes and [r[0] for (r,) in results] == [-1, 1]


def test_what_is_wrong_in_company_alone_is_a_fail():
    class Muddled(Reference):
        def run_many(self, programs):
            return [[r + np.float32(1) for r in self.run(*p)] for p in programs]

    x = np.ones(1, np.float32)
    cases = [Case(f"structured/{o}/0", "structured", o, UNARY.format(o), (x,)) for o in ("negate", "sqrt")]
    assert [v.outcome for v in check_many(cases, Reference())] == [Outcome.PASS] * 2
    found = check_many(cases, Muddled())
    assert {v.outcome for v in found} == {Outcome.FAIL} and "right alone" in found[0].reason

"""The verdict on each element: who is found, who is not blamed, and what is undecided."""

import ml_dtypes
import numpy as np
import pytest
from refxla_spec.errors import InputError
from refxla_spec.interpreter import run
from refxla_spec.sampling import Ensemble, sample
from refxla_spec.text import parse
from refxla_spec.verdicts import Judge, Verdict, members_of, student, verdicts

ADD = "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n"


def entry(*lines, also=""):
    return parse("HloModule m\n" + also + "ENTRY e {\n  " + "\n  ".join(lines) + "\n}")


def numbers(*dimensions, seed=0):
    return np.random.default_rng(seed).standard_normal(dimensions, np.float32)


def codes(module, args, result):
    return verdicts(module, args, [result]).results[0].codes


DEPTH = 12


def deep(activation="tanh"):
    """A network of twelve layers: its certain bounds are far wider than its values."""
    lines = ["x = f32[32,64] parameter(0)", "w = f32[64,64] parameter(1)", "zero = f32[] constant(0)"]
    lines += ["zeros = f32[32,64] broadcast(zero), dimensions={}", "h0 = f32[32,64] copy(x)"]
    for n in range(DEPTH):
        dot = f"d{n} = f32[32,64] dot(h{n}, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"
        call = f"maximum(d{n}, zeros)" if activation == "relu" else f"{activation}(d{n})"
        lines += [dot, f"{'ROOT ' if n == DEPTH - 1 else ''}h{n + 1} = f32[32,64] {call}"]
    return entry(*lines), [numbers(32, 64), numbers(64, 64, seed=1) / np.float32(8)]


def test_a_deep_program_is_decided_where_its_certain_bounds_are_wide():
    module, args = deep()
    judge = Judge(module, args)
    (reference,) = judge.references
    kept = judge.judge([sample(module, args, 7)]).results[0]
    assert kept.verdict is Verdict.WITHIN and not kept.same.all()
    assert kept.count(Verdict.UNDECIDED) < 0.01 * reference.size and kept.sharpness < 1e-3
    assert np.median(judge._bounds[0]) > np.median(np.abs(reference)), "the certain bounds decide nothing here"
    zero = judge.judge([0 * reference]).results[0]
    assert not zero.count(Verdict.WITHIN) and zero.count(Verdict.WRONG) > 0.98 * reference.size
    for error, wanted in ((2.0**-10, Verdict.WRONG), (2.0**-23, Verdict.WITHIN)):
        one = reference.copy()
        at = np.unravel_index(np.argsort(np.abs(one).reshape(-1))[one.size // 2], one.shape)
        one[at] *= np.float32(1 + error)
        (found,) = judge.judge([one]).results
        assert found.codes[at] == wanted and np.count_nonzero(found.codes >= Verdict.SUSPECT) == (error > 1e-6)
        assert found.worst == at or error < 1e-6


def test_one_wrong_element_among_many():
    module = entry("x = f32[200000] parameter(0)", "y = f32[200000] exponential(x)", "ROOT z = f32[200000] add(y, y)")
    args = [numbers(200000)]
    right = run(module, args)
    wrong = right.copy()
    wrong[123456] *= np.float32(1 + 2.0**-20)
    assert not codes(module, args, right).any()
    found = codes(module, args, wrong)
    assert found[123456] == Verdict.WRONG and np.count_nonzero(found) == 1


def test_exact_programs_are_held_to_their_bits():
    module = entry("x = f32[4] parameter(0)", "y = f32[4] multiply(x, x)", "ROOT z = f32[4] subtract(y, x)")
    x = numbers(4)
    right = run(module, [x])
    assert not codes(module, [x], right).any()
    assert codes(module, [x], np.nextafter(right, np.float32(9))).tolist() == [Verdict.WRONG] * 4


def test_what_rounding_may_change_by_as_much_as_it_is_is_undecided():
    """exp(x) - exp(x + 0): nothing is left but rounding."""
    lines = [
        "x = f32[64] parameter(0)",
        "z = f32[64] parameter(1)",
        "y = f32[64] add(x, z)",
        "a = f32[64] exponential(x)",
    ]
    module = entry(*lines, "b = f32[64] exponential(y)", "ROOT d = f32[64] subtract(a, b)")
    args = [numbers(64), np.full(64, 1e-9, np.float32)]
    ulp = np.spacing(np.exp(args[0]))
    assert set(codes(module, args, ulp)) == {Verdict.UNDECIDED}
    assert set(codes(module, args, 100 * ulp)) == {Verdict.WRONG}
    assert not codes(module, args, run(module, args)).any(), "the reference's own bits are right"


def test_errors_in_common_do_not_count_twice():
    """x / s * s: the error of s cancels, and that of a sum of a million does not grow by n again."""
    module = entry(
        "x = f32[4096] parameter(0)", "zero = f32[] constant(0)", "e = f32[4096] exponential(x)",
        "s = f32[] reduce(e, zero), dimensions={0}, to_apply=add", "b = f32[4096] broadcast(s), dimensions={}",
        "q = f32[4096] divide(e, b)", "ROOT r = f32[4096] multiply(q, b)", also=ADD,
    )  # fmt: skip
    (found,) = verdicts(module, [numbers(4096)], [run(module, [numbers(4096)])]).results
    assert found.sharpness < 1e-5
    alone = Ensemble(16)
    values = alone.run(module.entry, [alone.shared(numbers(4096))])
    assert 0 < np.median(alone.spread(values) / values[0]) < 5e-7


THRESHOLD = (
    "x = f32[256] parameter(0)", "y = f32[256] exponential(x)", "t = f32[256] parameter(1)",
    "p = pred[256] compare(y, t), direction=GT", "a = f32[256] parameter(2)", "b = f32[256] parameter(3)",
)  # fmt: skip


@pytest.mark.parametrize("near", [False, True])
def test_a_choice_in_doubt_may_fall_otherwise_and_no_other(near):
    module = entry(*THRESHOLD, "ROOT s = f32[256] select(p, a, b)")
    x = numbers(256)
    y = run(entry("x = f32[256] parameter(0)", "ROOT y = f32[256] exponential(x)"), [x])
    threshold = y + np.float32(1)
    if near:
        threshold[17] = np.nextafter(y[17], np.float32(9))
    a, b = numbers(256, seed=1), numbers(256, seed=2)
    other = b.copy()
    other[17] = a[17]
    got = codes(module, [x, threshold, a, b], other)
    assert got[17] == (Verdict.UNDECIDED if near else Verdict.WRONG) and not np.delete(got, 17).any()
    other[17] = 1000
    assert codes(module, [x, threshold, a, b], other)[17] == Verdict.WRONG, "neither of the two"


DECISIONS = {
    "floor": "ROOT r = f32[256] floor(y)",
    "round": "ROOT r = f32[256] round-nearest-even(y)",
    "to an integer": "ROOT r = s32[256] convert(y)",
    "to bf16": "c = bf16[256] convert(y)\nROOT r = f32[256] convert(c)",
    "sign": "s = f32[256] floor(y)\nd = f32[256] subtract(y, s)\nROOT r = f32[256] sign(d)",
}


@pytest.mark.parametrize("how", DECISIONS)
def test_rounding_to_few_digits_is_a_decision(how):
    """exp of the logarithms of whole numbers: above or below them by rounding alone."""
    module = entry("x = f32[256] parameter(0)", "y = f32[256] exponential(x)", DECISIONS[how])
    whole = np.arange(1, 257) + (np.where(np.arange(256) % 2, 0, 0.3) if how != "round" else 0.5)
    if how == "to bf16":
        whole = 1 + (2 * np.arange(256) + np.where(np.arange(256) % 2, 1, 0.3)) / 256 / 2
    x = np.log(whole).astype(np.float32)
    for seed in range(3):
        found = verdicts(module, [x], [sample(module, [x], seed)]).results[0]
        assert not found.count(Verdict.SUSPECT) and not found.count(Verdict.WRONG)
    far = run(module, [x]) + (100 if how == "to an integer" else np.float32(100))
    assert not (codes(module, [x], far) == Verdict.WITHIN).any()


def test_a_loop_that_rounding_may_end_earlier_says_so():
    text = """HloModule m
    c { s = (f32[], f32[]) parameter(0)
        x = f32[] get-tuple-element(s), index=0
        e = f32[] exponential(x)
        limit = f32[] get-tuple-element(s), index=1
        ROOT p = pred[] compare(e, limit), direction=LT }
    b { s = (f32[], f32[]) parameter(0)
        x = f32[] get-tuple-element(s), index=0
        one = f32[] constant(1)
        y = f32[] add(x, one)
        limit = f32[] get-tuple-element(s), index=1
        ROOT t = (f32[], f32[]) tuple(y, limit) }
    ENTRY e { x = f32[] parameter(0)
              l = f32[] parameter(1)
              s = (f32[], f32[]) tuple(x, l)
              ROOT w = (f32[], f32[]) while(s), condition=c, body=b }"""
    module = parse(text)
    for limit, doubt in ((np.float32(np.e), True), (np.float32(2), False)):
        report = verdicts(module, [np.float32(0), limit], [np.float32(2), limit])
        assert bool(report.unknown) is doubt
        assert report.results[0].verdict is (Verdict.UNDECIDED if doubt else Verdict.WRONG)
        assert report.results[1].verdict is Verdict.WITHIN


def test_what_has_no_bound_is_undecided_and_named():
    """Eigenvectors may turn, and nothing is said of them."""
    module = entry(
        "x = f32[4,4] parameter(0)",
        'd = (f32[4,4], f32[4]) custom-call(x), custom_call_target="Eigh", backend_config="1,1,100,1e-6"',
        "ROOT v = f32[4,4] get-tuple-element(d), index=0",
    )
    x = numbers(4, 4)
    report = verdicts(module, [x + x.T], [numbers(4, 4, seed=3)])
    assert report.results[0].verdict is Verdict.UNDECIDED
    assert report.unknown == {"no error bound of custom-call Eigh": 1}


@pytest.mark.parametrize(("opcode", "decided"), [("subtract", False), ("remainder", True)])
def test_an_order_that_is_open_decides_nothing(opcode, decided):
    """The elements of a reduction may be combined in any order: where another one gives another integer, which one it
    is says nothing. A sum modulo seven is made of an operation that might, and is the same in any order."""
    steps = (
        "d = s32[] subtract(p, q)"
        if opcode == "subtract"
        else "k = s32[] constant(7)\ns = s32[] add(p, q)\nd = s32[] remainder(s, k)"
    )
    module = parse(
        f"HloModule m\nf {{ p = s32[] parameter(0)\nq = s32[] parameter(1)\n{steps}\nROOT r = s32[] copy(d) }}\n"
        "ENTRY e { x = s32[64] parameter(0)\nc = s32[] constant(0)\n"
        "ROOT y = s32[] reduce(x, c), dimensions={0}, to_apply=f }"
    )
    x = np.arange(64, dtype=np.int32) ** 2 % 11
    report = verdicts(module, [x], [np.array(run(module, [x]) + 1)])
    assert report.results[0].verdict is (Verdict.WRONG if decided else Verdict.UNDECIDED)
    assert (report.unknown == {"no error bound of reduce": 1}) is not decided


def test_a_decomposition_is_held_to_what_defines_it():
    """The eigenvectors of two matrices, which may have either sign; one of them is then wrong in one element."""
    call = 'custom-call(x), custom_call_target="Eigh", backend_config="1,1,100,1e-6"'
    module = entry("x = f32[2,5,5] parameter(0)", f"ROOT d = (f32[2,5,5], f32[2,5]) {call}")
    x = numbers(2, 5, 5)
    judge = Judge(module, [x + x.swapaxes(-1, -2)])
    vectors, values = judge.references
    turned = judge.judge([-vectors, values])
    assert [v.verdict for v in turned.results] == [Verdict.WITHIN] * 2 and not turned.properties
    assert all(v.count(Verdict.WITHIN) == v.codes.size for v in turned.results)
    changed = vectors.copy()
    changed[1, 2, 3] += np.float32(0.01)
    report = judge.judge([changed, values])
    assert report.broken == [0, 1] and "d: A V is V diag(w) of matrix [1]: off by" in report.properties[0]
    for v in report.results:
        assert (v.codes[0] == Verdict.WITHIN).all() and (v.codes[1] == Verdict.WRONG).all()
    zero = judge.judge([0 * vectors, 0 * values])
    assert all((v.codes == Verdict.WRONG).all() for v in zero.results)


def test_results_that_do_not_fit_are_an_error():
    module = entry("x = f32[4] parameter(0)", "ROOT y = f32[4] negate(x)")
    for results in ([], [numbers(5)], [numbers(4).astype(np.float64)]):
        with pytest.raises(InputError):
            verdicts(module, [numbers(4)], results)


@pytest.mark.parametrize("degrees, probability, t", [(2, 0.05, 4.30265), (10, 0.05, 2.22814), (16, 1e-3, 4.01500)])
def test_students_distribution(degrees, probability, t):
    """Against the tables of Abramowitz and Stegun, 26.10."""
    assert student(probability, degrees) == pytest.approx(t, rel=1e-5)


def test_the_same_seed_gives_the_same_verdicts():
    module, args = deep("relu")
    one, two = (verdicts(module, args, [run(module, args)]).results[0].allowed for _ in range(2))
    assert np.array_equal(one, two)


def test_large_programs_have_fewer_members():
    """Three arrays of the size live together; x is shared by all."""
    for size, members in ((1 << 20, 16), (1 << 24, 16), (1 << 25, 8), (1 << 28, 4)):
        lines = [f"x = f32[{size}] parameter(0)", f"a = f32[{size}] exponential(x)", f"b = f32[{size}] tanh(x)"]
        assert members_of(entry(*lines, f"ROOT c = f32[{size}] add(a, b)")) == members, size
    module, args = deep()
    for members in (4, 8):
        assert not verdicts(module, args, [sample(module, args, 5)], members=members).broken
        (found,) = verdicts(module, args, [0 * args[0]], members=members).results
        assert not found.count(Verdict.WITHIN)


NARROW = {
    "a sum": ("x = bf16[64,64] parameter(0)", "z = bf16[] constant(0)",
              "ROOT r = bf16[64] reduce(x, z), dimensions={1}, to_apply=add"),
    "a product": ("x = bf16[64,64] parameter(0)",
                  "ROOT r = bf16[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
    "a function": ("x = bf16[64,64] parameter(0)", "ROOT r = bf16[64,64] tanh(x)"),
    "the end of a deep program": ("x = bf16[64,64] parameter(0)", "h0 = f32[64,64] convert(x)", *(
        f"d{n} = f32[64,64] dot(h{n}, h0), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n"
        f"h{n + 1} = f32[64,64] tanh(d{n})" for n in range(12)), "ROOT r = bf16[64,64] convert(h12)"),
}  # fmt: skip


@pytest.mark.parametrize("what", NARROW)
def test_a_narrow_result_is_rounded_to_nearest(what):
    """To the neighbour instead, one element in two: each is found, but those that lie almost in the middle."""
    module = entry(*NARROW[what], also=ADD.replace("f32", "bf16"))
    x = (numbers(64, 64) / 8).astype(ml_dtypes.bfloat16)
    right = run(module, [x])
    assert not codes(module, [x], sample(module, [x], 3)).max() > Verdict.UNDECIDED
    bits = right.view(np.uint16) + (np.arange(right.size) % 2).astype(np.uint16).reshape(right.shape)
    found = codes(module, [x], bits.view(ml_dtypes.bfloat16)).reshape(-1)
    assert not found[::2].any() and np.mean(found[1::2] >= Verdict.SUSPECT) > 0.9


def test_a_member_that_finds_no_end_is_given_up():
    """The logistic function again and again until nothing changes: who errs anew in each turn may never see that."""
    text = """HloModule m
    either { a = pred[] parameter(0)
             b = pred[] parameter(1)
             ROOT c = pred[] or(a, b) }
    c { s = (f32[64], f32[64]) parameter(0)
        x = f32[64] get-tuple-element(s), index=0
        y = f32[64] get-tuple-element(s), index=1
        p = pred[64] compare(x, y), direction=NE
        no = pred[] constant(false)
        ROOT r = pred[] reduce(p, no), dimensions={0}, to_apply=either }
    b { s = (f32[64], f32[64]) parameter(0)
        x = f32[64] get-tuple-element(s), index=0
        e = f32[64] logistic(x)
        ROOT t = (f32[64], f32[64]) tuple(e, x) }
    ENTRY e { x = f32[64] parameter(0)
              y = f32[64] parameter(1)
              s = (f32[64], f32[64]) tuple(x, y)
              w = (f32[64], f32[64]) while(s), condition=c, body=b
              ROOT r = f32[64] get-tuple-element(w), index=0 }"""
    args = [numbers(64), numbers(64, seed=1)]
    report = verdicts(parse(text), args, [np.full(64, 0.66, np.float32)])
    assert report.results[0].count(Verdict.UNDECIDED) == 64
    assert "a loop ends at another turn by rounding alone" in report.unknown


def test_a_decomposition_of_what_is_unknown():
    """NumPy refuses to decompose NaN; the check goes on."""
    call = 'custom-call({}), custom_call_target="Eigh", backend_config="1,1,100,1e-6"'
    module = entry(
        "x = f32[4,4] parameter(0)",
        f"d = (f32[4,4], f32[4]) {call.format('x')}",
        "v = f32[4,4] get-tuple-element(d), index=0",
        f"ROOT f = (f32[4,4], f32[4]) {call.format('v')}",
    )
    x = numbers(4, 4)
    report = verdicts(module, [x + x.T], [numbers(4, 4), numbers(4)])
    assert [v.verdict for v in report.results] == [Verdict.UNDECIDED] * 2


def test_a_reduction_of_several_arrays_of_which_the_first_is_of_integers():
    """What is rounded decides how far it may be off, wherever it stands."""
    module = parse("""HloModule m
    pairs { a = s32[] parameter(0)
            b = f32[] parameter(1)
            c = s32[] parameter(2)
            d = f32[] parameter(3)
            e = s32[] add(a, c)
            f = f32[] add(b, d)
            ROOT r = (s32[], f32[]) tuple(e, f) }
    ENTRY e { m = s32[100] parameter(0)
              x = f32[100] parameter(1)
              i = s32[] constant(0)
              z = f32[] constant(0)
              ROOT r = (s32[], f32[]) reduce(m, x, i, z), dimensions={0}, to_apply=pairs }""")
    given = [np.arange(100, dtype=np.int32), np.linspace(0, 1, 100, dtype=np.float32)]
    right = run(module, given)
    assert not verdicts(module, given, right).broken
    assert verdicts(module, given, (right[0], right[1] + np.float32(0.01))).broken == [1]


def sort(text, *, operands="x"):
    comparator = "before { a = f32[] parameter(0)\n b = f32[] parameter(1)\n " + text + " }\n"
    return entry(
        "x = f32[3,40] parameter(0)",
        f"ROOT s = f32[3,40] sort({operands}), dimensions={{1}}, to_apply=before",
        also=comparator,
    )


def test_rows_that_a_comparator_gives_no_order_are_undecided():
    """A NaN is equal to numbers that differ: where it ends up, and they, is anybody's."""
    x = numbers(3, 40)
    x[1, [3, 9, 30]] = np.nan
    module = sort("ROOT r = pred[] compare(a, b), direction=LT")
    (reference,) = Judge(module, [x]).references
    backwards = codes(module, [x], reference[:, ::-1].copy())
    assert (backwards[[0, 2]] >= Verdict.SUSPECT).any(axis=1).all()
    assert (backwards[1] == Verdict.UNDECIDED).sum() >= 38 and not (backwards[1] >= Verdict.SUSPECT).any()
    assert "gives its values no order" in str(verdicts(module, [x], [reference]).unknown)


def test_a_comparator_with_a_rule_for_nans_decides_all():
    x = numbers(3, 40)
    x[1, [3, 9, 30]] = np.nan
    module = sort("ROOT r = pred[] compare(a, b), direction=LT, type=TOTALORDER")
    (reference,) = Judge(module, [x]).references
    assert (codes(module, [x], reference) == Verdict.WITHIN).all()
    assert (codes(module, [x], reference[:, ::-1].copy()) >= Verdict.SUSPECT).any(axis=1).all()


def test_a_comparator_that_is_no_order_is_found_by_asking_it():
    """Values that are equal when they are near each other: of a long row the ends are not."""
    module = sort("d = f32[] subtract(b, a)\n c = f32[] constant(0.5)\n ROOT r = pred[] compare(d, c), direction=GT")
    near = (numbers(3, 40) > 0).astype(np.float32)  # two values, far apart
    (reference,) = Judge(module, [near]).references
    assert (codes(module, [near], reference) == Verdict.WITHIN).all()
    x = numbers(3, 40)
    (reference,) = Judge(module, [x]).references
    assert (codes(module, [x], reference[:, ::-1].copy()) <= Verdict.UNDECIDED).all()

"""Programs with dynamic shapes: compiled, by the reference and by XLA:CPU; arrays of any size up to the bounds."""

import numpy as np
import pytest
from dynamic_programs import MORE, PROGRAMS, arguments
from dynamic_shape_oracle import listed, xla_sized
from hypothesis import given
from hypothesis import strategies as st
from refxla_spec import interpreter
from refxla_spec.text import parse
from refxla_spec.types import ELEMENT_TYPES
from refxla_spec.verify import verify
from search import examples

import refxla

# Where XLA:CPU does something else, and why it is not to be believed.
XLA_DIFFERS = {
    "slice": "a size below 0 where the operand ends before the slice begins",
    "pad_crops": "a size below 0, and memory read past the array",
    "convolution": "not there for dynamic spatial dimensions",
    "convolution_strides": "not there for dynamic spatial dimensions",
    "reduce_window": "a size below 0 where the window does not fit",
    "reduce_window_pads": "padding does not count in the size, even where the size is the bound",
    "reduce_window_dilates": "padding and dilation do not count in the size",
    "cumulative_sum": "padding does not count in the size",
    "dynamic_update_slice": "the start is clamped to the bound, and the update lands past the array",
    "gather_clamps": "indices are clamped to the bound, and read what lies past the array",
    "topk": "not there for dynamic shapes",
    "grow": "the new elements are what lies in memory",
    "pad_to_static": "not there on a CPU",
    "while_grows": "a slice of a concatenation becomes its first operand, by the bounds",
    "while_with_an_array": "it aborts on a while whose state is no tuple",
    "while_from_a_static_array": "the way there by StableHLO needs equal types",
    "conditional_mixed": "the way there by StableHLO needs equal types",
}


def reference(name, args):
    module = parse(PROGRAMS[name])
    verify(module)
    return listed(interpreter.run(module, args))


def assert_same(got, want):
    assert [(g.dtype, g.shape) for g in got] == [(w.dtype, w.shape) for w in want]
    for g, w in zip(got, want, strict=True):
        np.testing.assert_array_equal(g, w)


@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled_is_the_reference_at_every_size(name):
    executable = refxla.compile(PROGRAMS[name])
    assert not any(i.shape.is_dynamic for i in executable.optimized_hlo.instructions())
    rng = np.random.default_rng(len(name))
    for sizes in ("full", "least", "random", "random", "random"):
        args = arguments(name, rng, sizes)
        assert_same(listed(executable(*args)), reference(name, args))


@pytest.mark.parametrize("name", [n for n in PROGRAMS if n not in XLA_DIFFERS and n not in MORE])
def test_the_reference_is_xla(name):
    args = arguments(name, np.random.default_rng(len(name) + 1))
    assert_same(xla_sized(PROGRAMS[name], *args), reference(name, args))


HARD = (
    "reshape_merges_both reshape_and_back concatenate concatenate_across sort_rows pad two_dimensions reverse".split()
)


@pytest.mark.parametrize("name", HARD)
def test_the_reference_is_xla_without_elements(name):
    args = arguments(name, np.random.default_rng(0), "least")
    assert_same(xla_sized(PROGRAMS[name], *args), reference(name, args))


@pytest.fixture(scope="module")
def executables():
    return {}


@examples(25)
@given(
    name=st.sampled_from([*HARD, "pipeline", "reduce_window_pads", "reduce_window_dilates", "dot", "dynamic_reshape"]),
    seed=st.integers(0, 2**32 - 1),
)
def test_compiled_is_the_reference_at_random_sizes(executables, name, seed):
    if name not in executables:
        executables[name] = refxla.compile(PROGRAMS[name])
    args = arguments(name, np.random.default_rng(seed))
    assert_same(listed(executables[name](*args)), reference(name, args))


@pytest.mark.parametrize("without", ["algebraic-simplifier", "constant-folding", "cse", "fusion"])
def test_without_a_pass(without):
    executable = refxla.compile(PROGRAMS["pipeline"], without=(without,))
    args = arguments("pipeline", np.random.default_rng(7))
    assert_same(listed(executable(*args)), reference("pipeline", args))


def test_one_compiled_program_takes_arrays_of_many_sizes():
    executable = refxla.compile(PROGRAMS["reduce_rows"])
    for rows in range(7):
        for columns in range(5):
            x = np.arange(rows * columns, dtype=np.float32).reshape(rows, columns)
            np.testing.assert_array_equal(executable(x), x.sum(1))


def test_what_lies_behind_an_array_has_no_part_in_anything():
    """A larger array leaves infinities and NaNs where the next call has none."""
    executable = refxla.compile(PROGRAMS["dot"])
    x, y = np.full((4, 5), np.inf, np.float32), np.full((5, 3), np.nan, np.float32)
    assert np.isnan(executable(x, y)).all()
    np.testing.assert_array_equal(executable(np.ones((2, 1), np.float32), np.full((1, 3), 2, np.float32)), 2)
    np.testing.assert_array_equal(executable(np.ones((3, 0), np.float32), np.ones((0, 3), np.float32)), 0)


@pytest.mark.parametrize("device", [None, "reference"])
def test_arguments_beyond_the_bounds_are_refused(device):
    executable = refxla.compile(PROGRAMS["sort_rows"], device=device)
    with pytest.raises(refxla.InputError, match="at most these sizes"):
        executable(np.zeros((4, 2), np.int32))
    with pytest.raises(refxla.InputError, match="s32"):
        executable(np.zeros((2, 2), np.int64))
    with pytest.raises(refxla.InputError):
        executable(np.zeros(3, np.int32))
    with pytest.raises(refxla.InputError, match="argument"):
        executable()


@pytest.mark.parametrize(
    "lines, name",
    [
        ("x = c64[<=4] parameter(0)\nROOT r = c64[<=4] fft(x), fft_type=FFT, fft_length={4}", "fft"),
        ("x = f32[<=4] parameter(0)\nROOT r = (f32[2], s32[2]) topk(x), k=2, largest=true", "topk"),
        ("x = f32[<=4,<=4] parameter(0)\nROOT r = f32[<=4,<=4] cholesky(x), lower=true", "cholesky"),
    ],
)
def test_what_has_no_rule_is_refused_by_name(lines, name):
    with pytest.raises(refxla.UnsupportedError, match=f"line 4.*r: {name} of"):
        refxla.compile(f"HloModule test\nENTRY main {{\n{lines}\n}}")


@pytest.mark.parametrize("name", ["f32", "f64", "bf16", "f8e4m3fnuz", "f4e2m1fn"])
@pytest.mark.parametrize("size", [1, 4, 5])
def test_what_lies_beyond_the_size_is_not_selected_after_a_nan(name, size):
    """No comparison with a NaN holds, whatever number would stand for what is not there."""
    hlo = f"""ge {{ a = {name}[] parameter(0)
                    b = {name}[] parameter(1)
                    ROOT c = pred[] compare(a, b), direction=GE }}
              add {{ a = f32[] parameter(0)
                     b = f32[] parameter(1)
                     ROOT c = f32[] add(a, b) }}
              ENTRY e {{ x = {name}[<=5] parameter(0)
                         s = f32[3] parameter(1)
                         z = f32[] constant(0)
                         ROOT r = f32[<=5] select-and-scatter(x, s, z), window={{size=4 pad=0_1}}, select=ge,
                           scatter=add }}"""
    with np.errstate(invalid="ignore"):
        x = np.array([1, np.nan, -np.inf, np.nan, np.nan])[:size].astype(ELEMENT_TYPES[name].dtype)
    module, arguments = parse(hlo), [x, np.float32([1, 10, 100])]
    assert_same(listed(refxla.compile(module)(*arguments)), listed(interpreter.run(module, arguments)))


@pytest.mark.parametrize("line", [
    "f8e8m0fnu[2] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
    "f8e8m0fnu[1,2,1] convolution(p, q), window={size=1}, dim_labels=b0f_0io->b0f",
])  # fmt: skip
def test_sums_of_products_of_a_type_without_zero(line):
    hlo = f"""x = f8e8m0fnu[4,2] parameter(0)
              y = f8e8m0fnu[<=4] parameter(1)
              t = f8e8m0fnu[2,4] transpose(x), dimensions={{1,0}}
              p = f8e8m0fnu[1,2,4] reshape(t)
              q = f8e8m0fnu[1,<=4,1] reshape(y)
              ROOT r = {line}"""
    module, dtype = parse(hlo), ELEMENT_TYPES["f8e8m0fnu"].dtype
    executable = refxla.compile(module)
    for size in (1, 3, 4):
        arguments = [np.exp2(np.arange(8.0).reshape(4, 2) % 3).astype(dtype), np.exp2(np.arange(size)).astype(dtype)]
        assert_same(listed(executable(*arguments)), listed(interpreter.run(module, arguments)))

"""convolution: strides, padding (negative too), both dilations, reversal, groups, any order of dimensions, 0 to 3
spatial dimensions, types."""

from __future__ import annotations

from collections.abc import Iterator

from .. import Case, seeded
from ..building import array_types, not_finite, random_values, structured

FIXED = (  # lhs, rhs, window, dim_labels, groups
    ((2, 5, 6, 3), (3, 3, 3, 4), "size=3x3 pad=1_1x1_1", "b01f_01io->b01f", ""),
    ((2, 5, 6, 3), (3, 3, 3, 4), "size=3x3 stride=2x1 pad=0_1x2_0", "b01f_01io->b01f", ""),
    ((2, 5, 6, 3), (3, 3, 4, 3), "size=3x3 pad=2_2x2_2 lhs_dilate=2x1 rhs_reversal=1x1", "b01f_01oi->b01f", ""),
    ((5, 6, 2, 3), (4, 3, 3, 2), "size=4x3 pad=1_0x0_1 rhs_dilate=1x2", "01bf_01io->b01f", ""),
    ((3, 5, 6, 2), (3, 4, 5, 2), "size=4x5", "f01b_i01o->01bf", ""),
    ((2, 3, 7), (4, 3, 3), "size=3 pad=-1_-2", "bf0_oi0->bf0", ""),
    ((2, 3, 7), (4, 3, 3), "size=3 pad=5_-3 rhs_dilate=2", "bf0_oi0->bf0", ""),
    ((2, 6, 7), (4, 3, 3), "size=3", "bf0_oi0->bf0", "feature_group_count=2"),
    ((2, 6, 7), (12, 1, 3), "size=3 stride=2 pad=1_1", "bf0_oi0->bf0", "feature_group_count=6"),
    ((4, 3, 7), (6, 3, 3), "size=3", "bf0_oi0->bf0", "batch_group_count=2"),
    ((1, 4, 4, 5, 2), (2, 2, 3, 2, 3), "size=2x2x3 stride=1x2x1 pad=1_0x0_0x1_1", "b012f_012io->b012f", ""),
    ((3, 4), (4, 5), "", "bf_io->bf", ""),
    ((3, 4), (2, 6), "", "bf_io->bf", "feature_group_count=2"),
    ((2, 0, 3), (2, 3, 4), "size=2 pad=1_1", "b0f_0io->b0f", ""),
    ((0, 5, 3), (2, 3, 4), "size=2", "b0f_0io->b0f", ""),
    ((2, 5, 0), (2, 0, 4), "size=2", "b0f_0io->b0f", ""),
    ((2, 3, 3), (5, 3, 4), "size=5", "b0f_0io->b0f", ""),  # a window larger than the array
    ((2, 3, 3), (1, 3, 4), "size=1 stride=7", "b0f_0io->b0f", ""),
    ((1, 12, 13, 8), (3, 3, 8, 16), "size=3x3 pad=1_1x1_1", "b01f_01io->b01f", ""),
    # Gradients, with as many features as fill a vector or two: by the input, and by the filter.
    ((1, 6, 7, 8), (3, 3, 16, 8), "size=3x3 pad=1_1x1_1", "b01f_01oi->b01f", ""),
    ((1, 6, 7, 24), (3, 3, 16, 24), "size=3x3 pad=1_1x1_1 rhs_reversal=1x1", "b01f_01oi->b01f", ""),
    ((2, 8, 9, 16), (2, 8, 9, 24), "size=8x9 pad=1_1x1_1", "f01b_i01o->01bf", ""),
    ((2, 9, 9, 8), (2, 4, 4, 16), "size=4x4 rhs_dilate=2x2", "f01b_i01o->01bf", ""),
)
Form = tuple[tuple[int, ...], tuple[int, ...], str, str, str]  # a row of FIXED
NOT_FINITE = {  # a type, and the forms whose operands have NaN and infinities
    "f32": (0, 1, 2, 5, 7, 9, 18, 21),
    "f64": (0,),
    "f16": (0,),
    "bf16": (0,),
    "c64": (0,),
}


def cases(thorough: bool) -> Iterator[Case]:
    """The fixed forms as f32, one form of every type, and random forms."""
    for n, form in enumerate(FIXED):
        yield _convolution(f"form_{n}", form, "f32", "f32")
    for t in array_types():
        for n in (0, 6, 7) if thorough else (6,):
            yield _convolution(f"{t}_{n}", FIXED[n], t.name, t.name)
    for name, forms in NOT_FINITE.items():
        for n in forms:
            labels = ("nan",) if name == "c64" else ("nan", "inf")  # the parts of complex infinities are not specified
            yield from not_finite(_convolution(f"{name}_{n}", FIXED[n], name, name), labels)
    for operands, result in (("s8", "s32"), ("bf16", "f32"), ("f16", "f32"), ("u8", "s32")):
        yield _convolution(f"{operands}_{result}", FIXED[1], operands, result)
    for n in range(600 if thorough else 40):
        yield _random(n)


def _convolution(variant: str, form: Form, operands: str, result: str) -> Case:
    lhs, rhs, window, labels, groups = form
    rng = seeded(f"convolution/{variant}")
    attributes = [f"window={{{window}}}"] if window else []
    attributes += [f"dim_labels={labels}", *([groups] if groups else [])]
    line = f"ROOT r = _{result} convolution(p0, p1), {', '.join(attributes)}"
    return structured(
        "convolution", variant, line, random_values(rng, operands, lhs), random_values(rng, operands, rhs)
    )


def _random(n: int) -> Case:
    """Every attribute at random; the dimensions of each of the three arrays in any order."""
    rng = seeded(f"convolution/random_{n}")

    def pick(*choices: int) -> int:
        return int(rng.choice(choices))

    rank = pick(0, 1, 1, 2, 2, 2, 3)
    feature_groups, batch_groups = ((1, 1), (pick(2, 3), 1), (1, 1), (1, pick(2, 3)))[n % 4]
    inputs = pick(1, 2, 3)  # input features of one group
    outputs = pick(1, 2) * feature_groups * batch_groups
    sizes, kernel = [], []
    keys = ("size", "stride", "pad", "lhs_dilate", "rhs_dilate", "rhs_reversal")
    dims: dict[str, list[str]] = {key: [] for key in keys}
    for _ in range(rank):
        sizes.append(pick(1, 3, 4, 5, 6))
        kernel.append(pick(1, 2, 3))
        dims["size"].append(str(kernel[-1]))
        dims["stride"].append(str(pick(1, 1, 2, 3)))
        dims["pad"].append(f"{pick(0, 0, 1, 2, -1, 3)}_{pick(0, 0, 1, 2, -1, -2)}")
        dims["lhs_dilate"].append(str(pick(1, 1, 1, 2, 3)))
        dims["rhs_dilate"].append(str(pick(1, 1, 1, 2)))
        dims["rhs_reversal"].append(str(pick(0, 0, 1)))
    window = " ".join(f"{key}={'x'.join(values)}" for key, values in dims.items()) if rank else ""
    space = "".join(map(str, range(rank)))

    def ordered(letters: str, lengths: list[int]) -> tuple[str, tuple[int, ...]]:
        order = rng.permutation(len(letters))
        return "".join(letters[k] for k in order), tuple(lengths[k] for k in order)

    lhs_labels, lhs = ordered("bf" + space, [pick(1, 2) * batch_groups, inputs * feature_groups, *sizes])
    rhs_labels, rhs = ordered("io" + space, [inputs, outputs, *kernel])
    out_labels, _ = ordered("bf" + space, [0] * (rank + 2))
    groups = ", ".join(
        f"{key}={count}"
        for key, count in (("feature_group_count", feature_groups), ("batch_group_count", batch_groups))
        if count > 1
    )
    form = lhs, rhs, window, f"{lhs_labels}_{rhs_labels}->{out_labels}", groups
    t = ("f32", "f32", "f64", "bf16", "s32", "c64", "f32", "f16")[n % 7]
    return _convolution(f"random_{n}", form, t, t)

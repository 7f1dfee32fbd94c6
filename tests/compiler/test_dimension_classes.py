"""Which dimensions index the same thing, and along which nothing can be computed for a part alone."""

from refxla_spec.text import parse

from refxla.analysis.dimension_classes import DimensionClasses


def classes_of(lines):
    """The classes of a program's dimensions, and its instructions by their names."""
    instructions = parse(f"HloModule m\n\nENTRY e {{\n{lines}\n}}\n").entry.instructions
    classes = DimensionClasses()
    for i in instructions:
        classes.link(i)
    return classes, {i.name: i for i in instructions}


def test_rows_that_are_multiplied_with_each_other_have_no_part_of_their_own():
    """Each row of x with each: both dimensions of the result are the rows of x."""
    classes, named = classes_of(
        " x = f32[4,8] parameter(0)\n ROOT y = f32[4,4] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={1}"
    )
    x, y = named["x"], named["y"]
    rows = classes.of((x, 0))
    assert rows == classes.of((y, 0)) == classes.of((y, 1))
    assert rows in classes.fixed([x, y]) and rows not in classes.fixed([x])


def test_rows_of_two_arrays_are_independent():
    classes, named = classes_of(
        " x = f32[4,8] parameter(0)\n z = f32[5,8] parameter(1)\n"
        " ROOT y = f32[4,5] dot(x, z), lhs_contracting_dims={1}, rhs_contracting_dims={1}"
    )
    x, y, z = (named[name] for name in "xyz")
    assert classes.fixed([x, y, z]) == {classes.of((x, 1)), classes.of((z, 1))}  # what the dot sums over

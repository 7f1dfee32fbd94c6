"""The verifier: each rule of structure, broken on purpose, and the form of its errors."""

import re

import pytest
from refxla_spec.errors import Error, InvalidProgramError, UnsupportedError
from refxla_spec.module import Alias, Computation, Instruction, Module
from refxla_spec.text import parse
from refxla_spec.types import Shape
from refxla_spec.verify import verify

REDUCER = "add {\n a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b)\n}\n"


def module(*lines: str, header: str = "") -> Module:
    body = "\n".join(f"  {line}" for line in lines)
    return parse(f"HloModule m{header}\n{REDUCER}ENTRY e {{\n{body}\n}}\n")


def broken(m: Module, kind: type[Error] = InvalidProgramError) -> Error:
    with pytest.raises(kind) as raised:
        verify(m)
    return raised.value


def test_a_valid_module():
    verify(
        module(
            "x = f32[4] parameter(0)", "z = f32[] constant(0)", "r = f32[] reduce(x, z), dimensions={0}, to_apply=add"
        )
    )


def test_the_form_of_an_error():
    error = broken(module("x = f32[4] parameter(0)", "y = f32[5] parameter(1)", "ROOT s = f32[4] add(x, y)"))
    first, line, caret = str(error).split("\n")
    assert error.constraint.startswith("add_c") and f"[{error.constraint}]" in first
    assert first.startswith("line 10, column 8: s: ") and "the rule is: " in first
    assert line.strip() == "ROOT s = f32[4] add(x, y)" and line[len(caret) - 1] == "s"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            ["x = f32[4] parameter(0)", "y = f32[5] negate(x)"],
            r"stated as f32\[5\], and negate of \(f32\[4\]\) gives f32\[4\]",
        ),
        (["x = f32[4] parameter(0)", "y = f32[4] add(x)"], "takes 2 operands .*, and has 1"),
        (["x = f32[4] parameter(0)", "y = f32[4] negate(x, x)"], "takes 1 operand .*, and has 2"),
        (["x = f32[4] parameter(1)"], "has a parameter 1 and no parameter 0"),
        (["x = f32[4] parameter(0)", "y = f32[4] parameter(0)"], "parameter 0 is there twice"),
        (["x = f32[4] parameter(0)", "y = pred[4] compare(x, x)"], "needs the attribute direction"),
        (["x = f32[4] parameter(0)", "y = f32[4] negate(x), dimensions={0}"], "has no attribute dimensions"),
        (["x = f32[4] parameter(0)", "y = f32[] get-tuple-element(x), index=0"], "get-tuple-element|get_tuple_element"),
        (["x = f32[4] parameter(0)", "y = f32[4] call(x), to_apply=add"], "call_c1"),
    ],
)
def test_broken_rules(lines, message):
    error = broken(module(*lines))
    assert re.search(message, str(error)), str(error)
    assert "line " in str(error) and "^" in str(error)


def test_an_operation_outside_the_specification():
    made = module("x = f32[4] parameter(0)", "y = f32[4] negate(x)")
    made.entry.instructions[1].opcode = "negat"  # no text can say it
    error = broken(made, UnsupportedError)
    assert "y: the operation negat is not in the specification; did you mean 'negate'" in str(error)
    assert "line 9" in str(error)


def test_annotations_are_no_attributes_of_the_operation():
    verify(module("x = f32[4] parameter(0)", 'y = f32[4] negate(x), origin={{x}}, original_value={{"x"}}'))


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (", input_output_alias={ {}: (2, {}) }", "the entry has 2 parameters"),
        (", input_output_alias={ {1}: (0, {}) }", "not there"),
        (", input_output_alias={ {}: (0, {1}) }", "not there"),
        (", input_output_alias={ {}: (1, {}) }", "puts together"),
        (", input_output_alias={ {}: (0, {}), {}: (0, {}) }", "an output twice"),
        (", entry_computation_layout={(f32[4]{0})->f32[4]{0}}", "entry_computation_layout says"),
        (", entry_computation_layout={(f32[4]{0}, f32[])->f32[5]{0}}", "entry_computation_layout says"),
    ],
)
def test_the_header(header, message):
    lines = ["x = f32[4] parameter(0)", "z = f32[] parameter(1)", "y = f32[4] negate(x)"]
    verify(module(*lines, header=", input_output_alias={ {}: (0, {}) }"))
    assert message in str(broken(module(*lines, header=header)))


def test_modules_built_wrongly_by_a_program():
    """What text cannot say, but a pass with a mistake can."""
    f32 = Shape.array("f32")
    x = Instruction("x", "parameter", f32, attributes={"number": 0})
    y = Instruction("y", "negate", f32, [x])

    def made(*instructions: Instruction, root: Instruction = y, **fields) -> Module:
        entry = Computation("e", list(instructions), root)
        return Module("m", **{"computations": [entry], "entry": entry} | fields)

    verify(made(x, y))
    assert "after it" in str(broken(made(y, x)))
    assert "not in computation e" in str(broken(made(y)))
    assert "two instructions of e are called x" in str(broken(made(x, Instruction("x", "negate", f32, [x]), y)))
    assert "none of its instructions" in str(broken(made(x)))
    assert "no instructions" in str(broken(made()))
    assert "no entry" in str(broken(made(x, y, entry=None)))
    assert "no entry" in str(broken(made(x, y, computations=[])))
    other = Computation("f", [x], x)
    caller = Instruction("y", "call", f32, [x], {"to_apply": other})
    assert "not in the module" in str(broken(made(x, caller, root=caller)))
    aliased = made(x, y, aliases=(Alias((), 0, (), "may-alias"), Alias((0,), 0, (), "may-alias")))
    assert "not there" in str(broken(aliased))
    cyclic = Instruction("y", "negate", f32)
    cyclic.operands = [cyclic]
    assert "depends on y" in str(broken(made(x, cyclic, root=cyclic)))

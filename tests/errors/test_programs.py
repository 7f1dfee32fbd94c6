"""Programs that are wrong, through the library: each raises one error, of the right kind, that says what and where."""

import random
import re

import numpy as np
import pytest
from command_line import EXAMPLES, SMALL
from refxla_conformance import collect
from refxla_spec import equality
from refxla_spec.operation import operations

import refxla as rx
from refxla.compiler.planning import plan_module
from refxla.device.description import DEFAULT_CPU
from refxla.ir import op_table
from refxla.ir.proto import from_proto, to_proto
from refxla.passes import call_inliner


def entry(*lines: str) -> str:
    return "HloModule m\n\nENTRY e {\n" + "".join(f"  {line}\n" for line in lines) + "}\n"


X = "x = f32[2] parameter(0)"

BROKEN = {
    "unknown opcode": (entry(X, "ROOT y = f32[2] frob(x)"), rx.ParseError, "line 5, column 19.*frob"),
    "nearly an opcode": (entry(X, "ROOT y = f32[2] negat(x)"), rx.ParseError, "line 5.*did you mean 'negate'"),
    "operand count": (entry(X, "ROOT y = f32[2] add(x)"), rx.InvalidProgramError, "line 5.*2 operands .*, and has 1"),
    "shapes": (entry(X, "ROOT y = f32[3] add(x, x)"), rx.InvalidProgramError, r"line 5.*as f32\[3\].*gives f32\[2\]"),
    "types": (
        entry(X, "i = s32[2] parameter(1)", "ROOT y = f32[2] add(x, i)"),
        rx.InvalidProgramError,
        "line 6.*add_c2",
    ),
    "cycle": (entry("y = f32[] negate(z)", "ROOT z = f32[] negate(y)"), rx.ParseError, "line 4.*used before"),
    "itself": (entry("ROOT z = f32[] negate(z)"), rx.ParseError, "line 4.*z depends on itself"),
    "undefined operand": (entry(X, "ROOT y = f32[2] negate(w)"), rx.ParseError, "line 5.*no instruction.*'w'"),
    "undefined computation": (
        entry(X, "ROOT y = f32[2] call(x), to_apply=f"),
        rx.ParseError,
        "line 5.*calls 'f', and no computation",
    ),
    "count of replicas": (
        entry(X).replace("HloModule m", "HloModule m, replica_count= =4"),
        rx.ParseError,
        "line 1, column 14: replica_count is a number from 1 to 999999999, not =4",
    ),
    "count of partitions": (
        entry(X).replace("HloModule m", "HloModule m, num_partitions=0"),
        rx.InvalidProgramError,
        "line 1, column 14: num_partitions is a number from 1 to 999999999, not 0",
    ),
    "two entries": (entry(X) + "ENTRY g {\n  ROOT z = f32[] constant(1)\n}\n", rx.ParseError, "line 6.*a second ENTRY"),
    "calls itself": (entry(X, "ROOT y = f32[2] call(x), to_apply=e"), rx.InvalidProgramError, "calls itself"),
    "two names": (entry(X, X), rx.ParseError, "line 5.*'?x'?"),
    "parameters": (entry("x = f32[2] parameter(1)"), rx.InvalidProgramError, "no parameter 0"),
    "attribute": (entry(X, "ROOT y = f32[2] negate(x), dimensions={0}"), rx.InvalidProgramError, "line 5.*dimensions"),
    "no attribute": (entry(X, "ROOT y = f32[2] reverse(x)"), rx.InvalidProgramError, "line 5.*dimensions"),
    "size of a dimension": (entry("x = f32[99999999999999999999] parameter(0)"), rx.ParseError, "line 4.*no size"),
    "a deep shape": (entry(f"x = {'(' * 3000}f32[]{')' * 3000} parameter(0)"), rx.ParseError, "nest"),
    "empty": ("", rx.ParseError, "end of the text"),
    "blank": (" \n\n", rx.ParseError, "end of the text"),
    "no bytes": (b"", rx.ParseError, "end of the text"),
    "prose": ("Dear compiler,\nplease.", rx.ParseError, "line 1, column 1"),
    "absent file": ("absent.hlo", rx.InputError, "cannot read absent.hlo: No such file"),
    "folder": ("/", rx.InputError, "cannot read /: Is a directory"),
    "custom call": (
        entry(X, 'ROOT y = f32[2] custom-call(x), custom_call_target="alien"'),
        rx.UnsupportedError,
        "line 5.*y: .*'alien'",
    ),
    "tiles": (
        entry("x = f32[2,4]{1,0:T(2,2)} parameter(0)", "ROOT y = f32[8]{0} bitcast(x)"),
        rx.UnsupportedError,
        "line 5.*y: .*tile",
    ),
    "token": (
        entry("t = token[] parameter(0)", "ROOT a = token[] after-all(t)"),
        rx.UnsupportedError,
        "line 4.*t: .*token",
    ),
    "too large": (entry("x = f32[9223372036854775807,4] parameter(0)"), rx.UnsupportedError, "line 4.*x: .*memory"),
}


@pytest.mark.parametrize("source, kind, pattern", BROKEN.values(), ids=BROKEN)
def test_a_broken_program_is_one_clear_error(source, kind, pattern):
    with pytest.raises(kind, match=f"(?s){pattern}") as caught:
        rx.compile(source)
    assert isinstance(caught.value, rx.Error)
    found = re.search(r"line (\d+)", str(caught.value))
    if found and isinstance(source, str):
        line = source.split("\n")[int(found[1]) - 1]
        assert len(line) > 200 or f"    {line.rstrip()}\n" in str(caught.value) and str(caught.value).endswith("^")


@pytest.mark.parametrize("opcode", sorted(operations()))
def test_an_operation_is_compiled_or_refused_by_name_and_line(opcode):
    for case in collect([opcode], ["example"]):
        try:
            plan_module(case.module, DEFAULT_CPU)
        except rx.UnsupportedError as problem:
            if case.devices > 1:  # refused as a whole
                assert f"is a program for {case.devices} devices" in str(problem)
                continue
            refused = re.match(r"line (\d+), column \d+: (\S+): ", str(problem))
            line = case.module.source.split("\n")[int(refused[1]) - 1]
            assert refused[2] in line and (f" {opcode}(" in line or opcode in str(problem)), problem


def test_what_has_no_emitter_is_named(monkeypatch):
    monkeypatch.delitem(op_table.ROWS, "sine")
    with pytest.raises(rx.UnsupportedError, match="(?s)line 5, column 8: y: .*sine.*device='reference'"):
        rx.compile(entry(X, "ROOT y = f32[2] sine(x)"))


def test_calls_that_multiply_are_refused_before_they_fill_the_memory(monkeypatch):
    monkeypatch.setattr(call_inliner, "LIMIT", 5000)
    text = "HloModule m\nf0 {\n  a = f32[2] parameter(0)\n  ROOT r = f32[2] sine(a)\n}\n"
    for n in range(1, 40):
        call = f"f32[2] call({{}}), to_apply=f{n - 1}"
        body = f"  a = f32[2] parameter(0)\n  b = {call.format('a')}\n  ROOT r = {call.format('b')}\n"
        text += f"f{n} {{\n{body}}}\n"
    text += "ENTRY e {\n  x = f32[2] parameter(0)\n  ROOT y = f32[2] call(x), to_apply=f39\n}\n"
    with pytest.raises(rx.UnsupportedError, match="b: with its calls inlined f.. has .* instructions"):
        rx.compile(text)


def test_text_cut_anywhere_is_a_parse_error():
    text = (EXAMPLES / "mlp" / "step.hlo").read_text()
    for end in range(0, len(text.rstrip()) - 1, 397):
        with pytest.raises(rx.ParseError):
            rx.parse(text[:end])


def test_a_proto_cut_anywhere_or_of_random_bytes_is_an_error():
    data = to_proto(rx.parse(SMALL))
    whole = str(from_proto(data)).partition("\n")[2]
    for end in range(len(data)):
        try:
            made = rx.compile(data[:end], device="reference").hlo
        except rx.Error:
            continue
        made.entry_layout = None  # it stands last: a proto that ends before it is a proto, and says the same program
        assert str(made).partition("\n")[2] == whole
    r = random.Random(0)
    for size in (1, 2, 7, 50, 1000):
        for _ in range(20):
            with pytest.raises(rx.Error):
                rx.compile(r.randbytes(size))


@pytest.mark.parametrize("source", [42, None, 1.5, ["HloModule"], object()])
def test_what_is_no_program_at_all(source):
    with pytest.raises(rx.InputError, match="HLO"):
        rx.compile(source)


def test_what_is_asked_for_beside_the_program():
    program = entry(X, "ROOT y = f32[2] negate(x)")
    with pytest.raises(rx.DeviceError, match="'toaster'.*there are: pocl"):
        rx.compile(program, device="toaster")
    with pytest.raises(rx.InputError, match="device is an int"):
        rx.compile(program, device=3)
    with pytest.raises(rx.InputError, match="no pass 'magic'; the passes are .*inline"):
        rx.compile(program, without=["magic"])
    with pytest.raises(rx.InputError, match="'expanders' cannot be left out"):
        rx.compile(program, without=["expanders"])
    with pytest.raises(rx.InputError, match="compile it alone"):
        rx.compile(program, np.ones(2, np.float32))
    assert rx.compile(program, device=rx.devices()[0]).device.name == rx.devices()[0].name


ONE = np.ones(2, np.float32)


@pytest.mark.parametrize("device", [None, "reference"])
@pytest.mark.parametrize(
    "arguments",
    [(), (ONE, ONE), (ONE.astype(np.float64),), (np.ones(3, np.float32),), (ONE[None],), ([1.0, 2.0],), (1,), ("two",),
     (None,), (object(),), ({},), ((ONE,),), (np.array(["a", "b"]),), (np.array([{}, 1], object),)],
)  # fmt: skip
def test_arguments_that_do_not_fit(device, arguments):
    run = rx.compile(entry(X, "ROOT y = f32[2] negate(x)"), device=device)
    with pytest.raises(rx.InputError, match=r"x"):
        run(*arguments)
    np.testing.assert_array_equal(run(ONE), -ONE)  # it works still


def test_names_that_no_text_can_hold_are_changed_when_a_proto_is_read():
    data = (
        to_proto(rx.parse(SMALL)).replace(b"spread", b"sp(ad ").replace(b"small", b"s m,l").replace(b"main", b"m\0{n")
    )
    module = from_proto(data)
    assert [i.name for i in module.entry.instructions][2] == "sp_ad_"
    assert equality.difference(rx.parse(str(module)), module) is None


FILES = {  # contents, the error, what it says after the file's name
    "a rule": (entry(X, "ROOT y = f32[3] add(x, x)"), rx.InvalidProgramError, "line 5, column .*add_c4"),
    "the grammar": (entry(X, "ROOT y = f32[2] add(x x)"), rx.ParseError, "line 5, column"),
    "the header": (entry(X).replace("m\n", "m, replica_count=0\n"), rx.InvalidProgramError, "line 1, column 14: repl"),
    "no code": (
        entry(X, 'ROOT y = f32[2] custom-call(x), custom_call_target="alien"'),
        rx.UnsupportedError,
        "line 5.*y: ",
    ),
    "a proto": (
        to_proto(rx.parse(entry(X, "ROOT y = f32[3] add(x, x)"))),
        rx.InvalidProgramError,
        r"y: \[add_c4\] the shape is stated as f32\[3\]",
    ),
    "spoiled bytes": (b"\x0a\xff\xff\xff", rx.ParseError, ""),
    "StableHLO": (
        "module { func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { return %y : tensor<2xf32> } }",
        rx.Error,
        "",
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_an_error_names_the_file(name, tmp_path):
    contents, kind, said = FILES[name]
    path = tmp_path / "program"
    path.write_bytes(contents if isinstance(contents, bytes) else contents.encode())
    for source in (path, str(path)):
        with pytest.raises(kind, match=f"(?s)^{re.escape(str(path))}: {said}"):
            rx.compile(source)

"""What a command's flags ask of the compiler is one frozen object, and no option is forgotten on the way."""

from dataclasses import fields

import pytest

from refxla.cli.commands import compiler_options
from refxla.cli.main import parser
from refxla.compiler.options import Options

FLAGS = "--device pocl --without cse,dce --without fusion --tune --winograd --lenient --linear-algebra expanded"
ASKED = Options("pocl", ("cse", "dce", "fusion"), True, True, True, "expanded")


@pytest.mark.parametrize("command", ["run", "show", "explain", "profile", "build -o out.refxla"])
def test_every_option_has_a_flag(command):
    read = parser().parse_args([*command.split(), "program.hlo", *FLAGS.split()])
    assert compiler_options(read) == ASKED
    assert all(getattr(ASKED, f.name) != f.default for f in fields(Options))
    assert compiler_options(parser().parse_args([*command.split(), "program.hlo"])) == Options()

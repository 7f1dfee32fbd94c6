"""python -m refxla_conformance.fuzz: as `refxla-conformance fuzz`."""

import sys

from refxla.cli.options import Parser

from . import add_arguments, main

parser = Parser(prog="refxla-conformance fuzz", description="Random programs, compared every way.")
add_arguments(parser)
sys.exit(main(parser.parse_args()))

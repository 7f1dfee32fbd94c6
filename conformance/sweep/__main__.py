"""python -m refxla_conformance.sweep: as refxla-conformance sweep."""

import sys

from refxla.cli.options import Parser

from .command import add_arguments, main

parser = Parser(prog="refxla-conformance sweep")
add_arguments(parser)
sys.exit(main(parser.parse_args()))

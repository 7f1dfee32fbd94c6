"""python -m refxla_conformance.sweep: as refxla-conformance sweep."""

import argparse
import sys

from .command import add_arguments, main

parser = argparse.ArgumentParser(prog="refxla-conformance sweep")
add_arguments(parser)
sys.exit(main(parser.parse_args()))

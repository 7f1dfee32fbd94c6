"""python -m refxla_conformance.fuzz: as `refxla-conformance fuzz`."""

import argparse
import sys

from . import add_arguments, main

parser = argparse.ArgumentParser(prog="refxla-conformance fuzz", description="Random programs, compared every way.")
add_arguments(parser)
sys.exit(main(parser.parse_args()))

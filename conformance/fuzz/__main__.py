"""python -m refxla_conformance.fuzz: as `refxla-conformance fuzz`."""

import sys

from ..command import main

if __name__ == "__main__":
    sys.exit(main(["fuzz", *sys.argv[1:]]))

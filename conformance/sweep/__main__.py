"""python -m refxla_conformance.sweep: as `refxla-conformance sweep`."""

import sys

from ..command import main

if __name__ == "__main__":
    sys.exit(main(["sweep", *sys.argv[1:]]))

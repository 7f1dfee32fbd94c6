"""`python -m refxla`, which is the command `refxla`."""

import sys

from .tools.cli import main

if __name__ == "__main__":
    sys.exit(main())

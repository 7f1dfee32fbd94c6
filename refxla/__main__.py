"""`python -m refxla`, the same as the command `refxla`."""

import sys

from .cli.main import main

if __name__ == "__main__":
    sys.exit(main())

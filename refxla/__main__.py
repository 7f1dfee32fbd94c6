"""`python -m refxla`, the same as the command `refxla`."""

import sys

from .cli.start import start


def main() -> int:
    """The command; returns its exit status."""
    return start("refxla.cli.main", "refxla")


if __name__ == "__main__":
    sys.exit(main())

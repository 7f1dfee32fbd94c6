"""`python -m refxla_conformance`, the same as the command `refxla-conformance`."""

import sys

from refxla.cli.start import start


def main() -> int:
    """The command; returns its exit status."""
    return start("refxla_conformance.command", "refxla-conformance")


if __name__ == "__main__":
    sys.exit(main())

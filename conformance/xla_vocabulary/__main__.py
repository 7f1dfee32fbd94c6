"""Prints what the XLA that is installed knows and is not known here; the status is 1 if there is any, else 0."""

from __future__ import annotations

import sys

from refxla_spec.errors import InputError
from refxla_spec.operation import operations

from refxla.cli.argument_parser import Parser
from refxla.cli.failures import guarded

from ..targets import private
from ..targets.child import Child
from . import missing


def main() -> int:
    """Runs the queries, and prints."""
    return guarded(_command, "refxla-conformance")


def _command() -> int:
    Parser(prog="python -m refxla_conformance.xla_vocabulary", description=__doc__).parse_args()
    if reason := private.missing():
        raise InputError(reason)
    child = Child("refxla_conformance.xla_vocabulary.worker", private.environment())
    try:
        gaps = [*missing.fields(), *(f"the opcode {o}" for o in missing.opcodes(child))]
        for opcode in operations():
            names = missing.attributes(child, opcode)
            gaps += [f"{opcode}: the attribute {name}" for name in names]
            print(f"{opcode}: {len(names)} attributes unknown", file=sys.stderr)
    finally:
        child.close()
    print("\n".join(gaps) or "nothing")
    return 1 if gaps else 0


if __name__ == "__main__":
    sys.exit(main())

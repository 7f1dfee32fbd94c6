"""Random programs: compared in every way that a program can be run; divergences are bisected, reduced and saved.

    python -m refxla_conformance fuzz --count 1000

docs/fuzzing.md is the manual. The reading order: generate.py and growth/ (the programs), runs.py and differ.py (what is
compared), batch.py and command.py (many programs), cause.py, reduce.py and record.py (a divergence), known_bugs.py
(planted bugs, which the fuzzer has to find).
"""

from __future__ import annotations

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    from .command import add_arguments

    add_arguments(parser)


def main(options: argparse.Namespace) -> int:
    """Runs the command; its exit status."""
    from .command import main

    return main(options)

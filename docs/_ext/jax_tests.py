"""The directives `jax-test-outcomes`, the table of what came of JAX's own tests on refxla, file by file, and
`jax-test-failures`, what explains the failures."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from refxla_conformance.jax_tests.outcomes import NOT_RUN, counts, read, share
from refxla_conformance.jax_tests.reasons import reason
from tables import paragraph, table

HEAD = ("File", "Sample", "Passed", "Failed", "Also fails on JAX's CPU", "Crashed or hung", "Skipped by JAX")
WIDTHS = (34, 12, 10, 10, 12, 10, 12)


class JaxTestOutcomes(Directive):
    """`jax-test-outcomes` with a version of JAX as its argument: a row for each file, and one for all."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        (version,) = self.arguments
        run = read()[version]
        files = run["files"]
        rows = [(name.removeprefix("tests/"), _sample(file), *_counts([file])) for name, file in sorted(files.items())]
        total = ("all", "", *_counts(files.values()))
        dates = sorted({run["date"] for file in files.values() for run in file["runs"]})
        text = (
            f"JAX {version}, jaxlib {_all(files, 'jaxlib')}, refxla at commit {_all(files, 'commit')}, Python "
            f"{run['machine']['python']}, {run['machine']['cores']} cores ({run['machine']['processor']}), "
            f"{' to '.join(dict.fromkeys([dates[0], dates[-1]]))}. Of the tests that run on JAX's CPU and pass there, "
            f"{100 * share(files.values()):.1f} % pass on refxla."
        )
        return [nodes.paragraph(text=text), table(HEAD, [*rows, total], WIDTHS)]


def _sample(file: Mapping[str, Any]) -> str:
    """What part of a file's tests have run."""
    if "counts" in file:
        every = file["options"]["every"]
        return "all" if every == 1 else f"1 in {every}"
    tests = len(file["outcomes"])
    run = tests - file["outcomes"].count(NOT_RUN)
    return "all" if run == tests else f"{run:,} of {tests:,}"


def _counts(files: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    total: Counter[str] = Counter()
    for file in files:
        total += counts(file)
        total["cpu too"] += sum(not failure["cpu"] for failure in file["wrong"])
    figures = total["passed"], total["failed"], total["cpu too"], total["crashed"] + total["hung"]
    return tuple(f"{n:,}" for n in (*figures, total["skipped"]))


def _all(files: Mapping[str, Any], name: str) -> str:
    return ", ".join(sorted({run["versions"][name] for file in files.values() for run in file["runs"]}))


class JaxTestFailures(Directive):
    """`jax-test-failures`: a row for each class of failures, with its tests; an error, if one has no explanation."""

    def run(self) -> list[nodes.Node]:
        tests: dict[Any, dict[str, None]] = defaultdict(dict)
        for version in read().values():
            for file in version["files"].values():
                for failure in file["wrong"]:
                    if (explained := reason(failure)) is None:
                        raise self.error(f"no class of reasons.py explains {failure['test']}: {failure['reason']}")
                    tests[explained][failure["test"].rpartition("::")[2]] = None
        lines = [(r.name, r.why, ", ".join(f"`{n}`" for n in names)) for r, names in tests.items()]
        if not lines:
            return [paragraph("None fails.")]
        return [table(("What fails", "Why", "Tests"), lines, (20, 45, 35))]


def setup(app: Any) -> dict[str, bool]:
    """What Sphinx calls."""
    app.add_directive("jax-test-outcomes", JaxTestOutcomes)
    app.add_directive("jax-test-failures", JaxTestFailures)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

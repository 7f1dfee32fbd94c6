"""A pytest plugin, with which `jax_tests` runs its children: which tests to run, and how each of them ends.

Names are passed in JSON files, since JAX's tests have names with brackets, spaces and line breaks, which pytest's
arguments and output do not separate. It imports nothing of refxla, so that children on JAX's CPU do not load it.
"""

import faulthandler
import json
import signal
from typing import Any

import pytest

LENGTH = 300  # characters of a reason
STACKS = pytest.StashKey[Any]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--names", help="a file with the names of the tests to run (all, if none is given)")
    parser.addoption("--record", help="a file that gets a line for each test that is found, or begins, or ends")
    parser.addoption("--stacks", help="a file that gets the stacks of all threads, on SIGUSR1 and if the process dies")
    parser.addoption("--posing", default="", help="the platform on which JAX's tests are told they run")


class Recorder:
    """A plugin of pytest that writes what happens to each test, a line of JSON each, as it happens."""

    def __init__(self, record: str) -> None:
        self.file = open(record, "a")  # noqa: SIM115 - as long as the process, which may die

    def write(self, event: str, name: str, reason: str = "") -> None:
        print(json.dumps([event, name, reason]), file=self.file, flush=True)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if session.config.option.collectonly:
            for item in session.items:
                self.write("found", item.nodeid)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.write("begun", nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test's last line counts: that of its teardown is written only if that fails."""
        expected = hasattr(report, "wasxfail")
        if report.failed or (expected and report.passed):
            self.write("failed", report.nodeid, reason(report))
        elif report.when == "call" or report.skipped:
            skipped = report.skipped and not expected
            self.write("skipped" if skipped else "passed", report.nodeid, reason(report) if skipped else "")


def reason(report: pytest.TestReport) -> str:
    """Why a test failed or was skipped: the beginning of its exception's message."""
    crash = getattr(report.longrepr, "reprcrash", None)
    skip = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
    text = crash.message if crash else str(skip)
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [""]
    first = lines[0] if not lines[0].endswith(":") or len(lines) == 1 else f"{lines[0]} {lines[1]}"
    return first[:LENGTH]


def pytest_configure(config: pytest.Config) -> None:
    if config.option.posing:
        import jax
        import jax._src.test_util  # defines the setting

        jax.config.update("jax_test_dut", config.option.posing)  # "device under test"
    if config.option.stacks:
        stacks = open(config.option.stacks, "a")  # noqa: SIM115 - as long as the process, which may die
        faulthandler.enable(stacks)
        faulthandler.register(signal.SIGUSR1, stacks)
        config.stash[STACKS] = stacks  # faulthandler has only its descriptor
    if config.option.record:
        config.pluginmanager.register(Recorder(config.option.record))


def pytest_collection_modifyitems(config: pytest.Config, items: list[Any]) -> None:
    if config.option.names:
        with open(config.option.names) as file:
            names = set(json.load(file))
        items[:] = [item for item in items if item.nodeid in names]

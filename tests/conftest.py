"""What every test runs under."""

import os
import signal
import zlib

import pytest
from hypothesis import HealthCheck, settings
from search import USUAL

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# TensorFlow is what results are compared with, by kernels of its own: with those of oneDNN, which it prefers on some
# processors, 2.21 ends the process at the gradient of a max-pool of no images ("Check failed: dtype() ==
# expected_dtype"), and a convolution of no images has the wrong shape. It reads this when it is imported.
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
# Oclgrind reads this when its first context is made. (Its plugin for uninitialised memory breaks vector kernels.)
os.environ["OCLGRIND_DATA_RACES"] = "1"
os.environ["REFXLA_CALIBRATION"] = "off"  # plans are the same on every machine, and nothing is measured

# What a shell starts in the background ignores Control-C, and so would the commands that tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples at every run, so that a failure is one for everyone; `tox -e search` looks for more, each time for
# others. None fails because the machine is slow.
_SLOW = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("sample", derandomize=True, max_examples=USUAL // 3, **_SLOW)
settings.register_profile("same", derandomize=True, max_examples=USUAL, **_SLOW)
settings.register_profile("search", max_examples=16 * USUAL, print_blob=True, **_SLOW)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

FEW = 2  # cases of a test, which a sample has all of


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--sample",
        action="store_true",
        help=f"of a test with more than {FEW} cases, run a sixteenth of them, and a third of a property's examples: "
        "the same ones at every run",
    )


def sample_size(cases: int) -> int:
    """How many of a test's cases are run with --sample."""
    return cases if cases <= FEW else -(-cases // 16)


def pytest_configure(config: pytest.Config) -> None:
    """With --sample, properties are tried on fewer examples, unless a profile is asked for."""
    config.addinivalue_line("markers", "whole: all cases of these tests are run with --sample too")
    if config.getoption("sample") and "HYPOTHESIS_PROFILE" not in os.environ:
        settings.load_profile("sample")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With --sample, leaves out what `tox` leaves to `tox -e cases`."""
    if not config.getoption("sample"):
        return
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    # By a hash of the name, so that the products of several parameters are crossed, not walked along one of them.
    chosen = {
        item
        for cases in tests.values()
        for item in sorted(cases, key=lambda item: zlib.crc32(item.nodeid.encode()))[: sample_size(len(cases))]
    }
    chosen.update(item for item in items if item.get_closest_marker("whole"))
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = [item for item in items if item in chosen]

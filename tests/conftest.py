"""What every test runs under."""

import os
import signal

from hypothesis import HealthCheck, settings
from search import USUAL

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Oclgrind reads this when its first context is made. (Its plugin for uninitialised memory breaks vector kernels.)
os.environ["OCLGRIND_DATA_RACES"] = "1"
os.environ["REFXLA_CALIBRATION"] = "off"  # plans are the same on every machine, and nothing is measured

# What a shell starts in the background ignores Control-C, and so would the commands that tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples at every run, so that a failure is one for everyone; `tox -e search` looks for more, each time for
# others. None fails because the machine is slow.
_SLOW = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("same", derandomize=True, max_examples=USUAL, **_SLOW)
settings.register_profile("search", max_examples=16 * USUAL, print_blob=True, **_SLOW)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

"""What every test runs under."""

import os

from hypothesis import settings

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["REFXLA_FIGURES"] = "default"  # plans are the same on every machine, and nothing is measured

# The same examples at every run, so that a failure is one for everyone; HYPOTHESIS_PROFILE=search looks for more.
settings.register_profile("same", derandomize=True, deadline=None, max_examples=60)
settings.register_profile("search", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

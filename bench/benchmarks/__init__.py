"""asv's suites. asv imports this folder as a separate package; the rest of bench is found from the root, after the
installed packages, so that the refxla that asv has built is measured."""

import sys
from pathlib import Path

ROOT = str(Path(__file__).parents[2])
if ROOT not in sys.path:
    sys.path.append(ROOT)

"""HLO to HLO. Each pass is one file; pipeline.py has their order."""

"""HLO to HLO: one file for each pass, the order in pipeline.py."""

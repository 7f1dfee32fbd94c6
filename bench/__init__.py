"""Measurements: the suites of asv in benchmarks/, and two commands, bench.peers and bench.profile."""

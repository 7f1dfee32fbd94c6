"""Analyses that several stages use: index expressions, orders of sums, tiling, trip counts, cost."""

"""Reductions, in an order that depends on shapes alone."""

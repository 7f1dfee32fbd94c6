"""Reductions, in an order that shapes alone fix."""

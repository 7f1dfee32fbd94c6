"""How programs come in: one file for each source."""

"""Everything specific to PoCL: its built-in functions, its files, and processes that compile with it."""

"""What PoCL alone needs: its built-in functions, its files, and processes that compile with it."""

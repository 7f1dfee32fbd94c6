"""The Cython core: shapes, fusion and memory over flat arrays."""

"""The types of batched_lapack.pyx."""

ROUTINES: tuple[str, ...]

def limit_vectors(bytes: int) -> None: ...

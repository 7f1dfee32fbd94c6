"""The types of pjrt_client.pyx."""

MEMORY_KIND_NAMES: tuple[str, ...]

def configure(count: int, version: str) -> None: ...

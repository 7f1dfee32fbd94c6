"""JAX on refxla: a PJRT plugin, which runs unmodified JAX programs (`JAX_PLATFORMS=refxla python train.py`).

JAX finds it by the entry point `jax_plugins` and calls `initialize`. The interface itself is refxla/_core/pjrt*.pyx.
"""

from __future__ import annotations


def initialize() -> None:
    """Registers the platform with JAX, which calls this when it looks for plugins. If JAX_PLATFORMS names only others,
    nothing is loaded. Control-C meanwhile is raised when this has returned: JAX takes all that is raised here for an
    error of the plugin, writes it to a log, and goes on without the platform."""
    import jax

    platforms = jax.config.jax_platforms
    if not platforms or "refxla" in platforms.split(","):
        from .postponed_interrupts import postponed_until_return

        with postponed_until_return(initialize):
            from .plugin import register

            register()

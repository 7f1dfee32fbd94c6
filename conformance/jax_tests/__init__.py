"""JAX's own tests with refxla as JAX's platform: python -m refxla_conformance.jax_tests (command.py)."""

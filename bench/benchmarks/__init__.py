"""refxla beside JAX."""

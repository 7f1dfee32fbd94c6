"""Matrix products and convolutions: one register-tiled product over packed panels."""

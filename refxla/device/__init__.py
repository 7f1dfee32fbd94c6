"""The compiler's knowledge of a device: one description, filled by probing and calibration and passed down."""

"""What the compiler knows of a device: one description, filled by probing and calibration and passed down."""

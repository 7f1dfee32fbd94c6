"""What looks at a window around each element."""

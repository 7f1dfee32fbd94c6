"""Generated cases of the structured operations, over the space of their attributes; one file for each family."""

"""Generated cases of the structured operations, varying their attributes; one file for each family."""

"""The types of shape_rules.pyx."""

RULES: dict[str, Entry]

class Entry: ...

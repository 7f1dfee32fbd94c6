"""The types of shape_structured.pyx: it enters rules into the table of shape_rules.pyx, and exports no names."""

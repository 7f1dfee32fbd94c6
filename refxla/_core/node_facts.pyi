"""The types of node_facts.pyx, whose functions only the core calls."""

"""The specification of HLO: what a program means, in Python that reads like a standard. Start with README.md."""

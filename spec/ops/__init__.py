"""One file for each operation of HLO; `operation.py` beside this folder says what such a file holds."""

"""XLA's own programs, read from a checkout of its repository: read, verified and run here and beside XLA:CPU.

    python -m refxla_conformance.xla_corpus CHECKOUT [--rows FILE] [--only GLOB] [--no-run] [-j 2]

The tests of XLA contain thousands of programs, as strings and as `.hlo` files (extract.py). Each is given to both
readers, ours and XLA's. Programs that both read are verified, printed and read again, and, if they are for one device
and not too large, run with the same arguments by the reference, by the compiler, and by XLA:CPU, under the bounds of
the numeric contract (worker.py).

Anything that is not plainly right (a text that only one side reads, a program that is rejected, a difference) needs a
judgement in a table, `judged.json` (judged.py). The command fails if there is none for it. No text of XLA's is stored
here: the table has file, test and hash.
"""

"""XLA's own programs, read from a checkout of its repository: read, verified and run here and beside XLA:CPU.

    python -m refxla_conformance.xla_corpus CHECKOUT [--rows FILE] [--only GLOB] [--no-run] [-j 2]

The tests of XLA hold thousands of programs, as strings and as `.hlo` files (extract.py). Each is put to both readers,
ours and XLA's; what both read is verified, printed and read again, and, where it is of one device and not too large,
run with the same arguments by the reference, by the compiler, and by XLA:CPU, under the bounds of the numeric contract
(worker.py).

Whatever is not plainly right, a text that only one side reads, a program that is refused, a difference, is held to a
table of judgements, `judged.json` (judged.py). The command fails for what none of them is about. No text of XLA's is
kept here: the table names file, test and hash.
"""

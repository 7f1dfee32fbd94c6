"""The compiler driver: from a program to an executable, with the cache, the autotuner and the explanations of its
decisions."""

"""What several stages ask of a program: index expressions, orders of sums, tiling, trip counts, cost."""

"""What a program is inside the compiler: the table of operations, a builder of instructions, the plan, fingerprints;
its form as a proto."""

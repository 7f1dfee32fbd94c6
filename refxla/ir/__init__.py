"""The representations of a program inside the compiler: the table of operations, a builder of instructions, the plan,
fingerprints, and the serialized form as a proto."""

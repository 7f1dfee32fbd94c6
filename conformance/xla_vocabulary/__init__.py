"""What the XLA that is installed knows, beside what is known here: opcodes, attributes, and fields of protos.

    python -m refxla_conformance.xla_vocabulary

Nothing of XLA's sources is needed, and no list of names that somebody has to keep: descriptors of its protos stand in
jaxlib's library, and so does each word that its parser knows. All words that might be an opcode or an attribute are put
to the parser (words.py, worker.py), which says of each whether it is one. So what a new jaxlib brings is found at one
command. It takes minutes, most of them for the attributes of each opcode.
"""

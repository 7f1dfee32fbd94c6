"""The process that runs XLA's parser, which some texts end."""

from __future__ import annotations

import re

import jaxlib._hlo as hlo

from ..targets.child import serve


def opcodes(words: list[str]) -> list[str]:
    """Those of the words that are opcodes."""
    text = "HloModule m\nENTRY e {{ a = f32[] parameter(0)\n ROOT r = f32[] {}(a) }}"
    no = re.compile("expects opcode|Unknown opcode")
    return [word for word in words if not no.search(_said(text.format(word)))]


def attributes(text: str, words: list[str]) -> list[str]:
    """Those of the words that are attributes in place of @ in the text."""
    names = []
    for word in words:
        message = _said(text.replace("@", word))
        if f'unexpected attribute "{word}"' not in message and "expects attribute name" not in message:
            names.append(word)
    return names


def _said(text: str) -> str:
    try:
        hlo.hlo_module_from_text(text)
    except Exception as error:
        return str(error)
    return ""


if __name__ == "__main__":
    serve({"opcodes": opcodes, "attributes": attributes})

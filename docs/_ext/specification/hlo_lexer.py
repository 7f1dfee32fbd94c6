"""HLO text in colour: a lexer for Pygments."""

from __future__ import annotations

from pygments.lexer import RegexLexer, bygroups
from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String, Text
from refxla_spec.types import ELEMENT_TYPES


class HloLexer(RegexLexer):
    """HLO text, whole modules or lines of one."""

    name = "HLO"
    aliases = ["hlo"]
    filenames = ["*.hlo"]

    tokens = {
        "root": [
            (r"\s+", Text.Whitespace),
            (r"//[^\n]*|/\*.*?\*/", Comment),
            (r"\b(HloModule|ENTRY|ROOT)\b", Keyword),
            (r'"[^"\n]*"', String),
            (r"\b(" + "|".join(sorted(ELEMENT_TYPES, key=len, reverse=True)) + r")(?=\[)", Keyword.Type),
            (r"([a-z][\w-]*)(\s*)(=)(?=\S)", bygroups(Name.Attribute, Text, Operator)),
            (r"([a-z][\w-]*)(?=\()", Name.Function),
            (r"-?\b(\d+(\.\d*)?(e[-+]?\d+)?|inf|nan)\b(?![\w.])", Number),
            (r"\b(true|false)\b", Keyword.Constant),
            (r"%?[\w.-]+", Name),
            (r"->|[=:]", Operator),
            (r"[{}()\[\],<>^?*;/!@#$&|~'`+.-]", Punctuation),
        ]
    }

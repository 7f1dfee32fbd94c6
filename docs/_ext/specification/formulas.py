"""Formulas, from the plain text of the docstrings to MathML, which browsers show without any script.

The text is what a person would write: `result[i..] = sqrt(x^2 + 1)`. Letters become variables (`j0` has an index),
`^` raises, `sqrt(..)`, `floor(..)` and `sum over k of` become their signs; longer words stay words. Nothing is
computed: whatever is not understood is shown as it is written.
"""

from __future__ import annotations

import re
from html import escape

_TOKEN = re.compile(
    r"(?P<space>\s+)|(?P<number>\d+(?:\.\d+)?(?:e-?\d+)?)|(?P<sum>sum over (?:[a-z]\.*(?:, )?)+ of\b)"
    r"|(?P<word>[A-Za-z_]\w*(?:-[A-Za-z]{2,}\w*)*(?:'s\b|\.py\b)?)"
    r"|(?P<sign>\.\.\.|\.\.|<=|>=|!=|->|<<|>>|[-+*/^=<>|,;:()\[\]{}&!?'\"%~.])|(?P<other>.)"
)
_SIGNS = {"*": "·", "<=": "≤", ">=": "≥", "!=": "≠", "->": "→", "-": "−", "<<": "≪", ">>": "≫"}
_NAMES = {"pi": "π", "inf": "∞", "sum": "∑", "infinity": "∞"}
_INDEXED = re.compile(r"([a-zA-Z])(\d+)|([ij])([mnd])")
_ENCLOSED = {
    "sqrt": ("<msqrt>", "</msqrt>"),
    "floor": ("<mo>⌊</mo>", "<mo>⌋</mo>"),
    "ceil": ("<mo>⌈</mo>", "<mo>⌉</mo>"),
}
_CLOSING = {"(": ")", "[": "]", "{": "}"}


def to_html(lines: list[str]) -> str:
    """A block of formulas as a table: what stands left of the first `=`, the formula, and its condition."""
    rows = []
    for line in lines:
        indent = len(line) - len(line.lstrip())
        formula, *conditions = re.split(r"\s{2,}(?![\s=])", line.strip())
        left, equals, right = (" " + formula).partition(" = ")  # a line may go on with `=`
        cells = [to_mathml(left.strip()), to_mathml("= " + right)] if equals else [to_mathml(formula)]
        span = "" if equals else ' colspan="2"'
        cells = [f"<td{span}{_padded(indent if n == 0 else 0)}>{c}</td>" for n, c in enumerate(cells)]
        rows.append("<tr>" + "".join(cells) + "".join(f"<td>{to_mathml(c)}</td>" for c in conditions) + "</tr>")
    return '<div class="formula"><table>' + "".join(rows) + "</table></div>"


def _padded(columns: int) -> str:
    return f' style="padding-left: {columns * 0.6:.1f}em"' if columns else ""


def to_mathml(text: str) -> str:
    """One formula."""
    return f"<math>{_Formula(text).row()}</math>" if text else ""


class _Formula:
    """Reads a formula from left to right; each method returns MathML and leaves the place after what it read."""

    def __init__(self, text: str) -> None:
        self.tokens = [(m.lastgroup, m.group()) for m in _TOKEN.finditer(text)]
        self.at = 0

    def peek(self) -> tuple[str, str]:
        return self.tokens[self.at] if self.at < len(self.tokens) else ("end", "")

    def row(self, until: str = "") -> str:
        """Everything up to a closing bracket (which is taken), or to the end."""
        parts: list[str] = []
        while self.peek()[0] != "end":
            kind, text = self.peek()
            if kind == "sign" and text == until:
                self.at += 1
                break
            if kind == "space":
                self.at += 1
                parts.append(f'<mspace width="{0.28 * min(len(text), 4):.2f}em"/>' if self._between_words() else "")
            elif text == "^" and parts:
                self.at += 1
                parts.append(f"<msup>{parts.pop()}<mrow>{self._exponent()}</mrow></msup>")
            else:
                parts.append(self._atom())
        return "".join(parts)

    def _between_words(self) -> bool:
        """Whether neither neighbour of the blank is an operator, which has its own space."""
        before, after = self.tokens[self.at - 2] if self.at > 1 else ("", ""), self.peek()
        operators = set("+-*/=<>^|") | {"<=", ">=", "!=", "->"}
        return before[1] not in operators and after[1] not in operators | {",", ""} and before[1] != ","

    def _exponent(self) -> str:
        kind, text = self.peek()
        if text == "(":  # its brackets are not needed once it is raised
            self.at += 1
            return self.row(until=")")
        sign = ""
        if text in ("-", "+"):
            self.at += 1
            sign = f"<mo>{_SIGNS.get(text, text)}</mo>"
        return sign + self._atom()

    def _atom(self) -> str:
        kind, text = self.peek()
        self.at += 1
        if kind == "number":
            return f"<mn>{text}</mn>"
        if kind == "sum":
            over = _Formula(text[len("sum over ") : -len(" of")]).row()
            return f"<munder><mo>∑</mo><mrow>{over}</mrow></munder>"
        if kind == "word":
            return self._word(text)
        if text in _CLOSING:
            inner = self.row(until=_CLOSING[text])
            return f'<mrow><mo stretchy="false">{text}</mo>{inner}<mo stretchy="false">{_CLOSING[text]}</mo></mrow>'
        if text in ("..", "..."):
            return "<mtext>…</mtext>"
        return f'<mo stretchy="false">{escape(_SIGNS.get(text, text))}</mo>'

    def _word(self, text: str) -> str:
        if text in _ENCLOSED and self.peek()[1] == "(":
            self.at += 1
            first, last = _ENCLOSED[text]
            return f"<mrow>{first}{self.row(until=')')}{last}</mrow>"
        if text in _NAMES:
            return f"<mo>{_NAMES[text]}</mo>" if text == "sum" else f"<mi>{_NAMES[text]}</mi>"
        index = _INDEXED.fullmatch(text)
        if index and (text != "in" or self.tokens[max(self.at - 4, 0)][1] == ".."):
            last = f"<mn>{index[2]}</mn>" if index[2] else f"<mi>{index[4]}</mi>"
            return f"<msub><mi>{index[1] or index[3]}</mi>{last}</msub>"
        if len(text) == 1 and (text != "a" or self._is_variable()):
            return f"<mi>{text}</mi>"
        return f'<mtext class="word">{escape(text)}</mtext>'

    def _is_variable(self) -> bool:
        """Whether this `a` is a letter of the formula, and not the article: a sign stands beside it."""
        before = [kind for kind, _ in self.tokens[max(self.at - 3, 0) : self.at - 1] if kind != "space"]
        after = [kind for kind, _ in self.tokens[self.at : self.at + 2] if kind != "space"]
        return before[-1:] == ["sign"] or after[:1] == ["sign"]

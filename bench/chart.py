"""A bar chart of speed-ups over JAX as SVG, sorted, one bar for each entry: what `bench.peers --svg` writes."""

from __future__ import annotations

import math
from html import escape

_ROW, _LEFT, _WIDTH, _TOP = 22, 190, 900, 58
_FASTER, _SLOWER, _BEST = "#2b6cb0", "#c05621", "#718096"


def svg(ratios: dict[str, float], best: dict[str, float], title: str, subtitle: str = "") -> str:
    """Bars of `ratios` (entry -> JAX's time over refxla's) on a logarithmic axis, the largest on top; `best` has the
    same ratio for the fastest other framework, drawn as a mark on the bar. Raises ValueError if there are no ratios."""
    if not ratios:
        raise ValueError("there is no ratio to draw: refxla and jax must both have run")
    rows = sorted(ratios.items(), key=lambda item: -item[1])
    values = [*ratios.values(), *best.values(), 1.0]
    low, high = math.floor(math.log2(min(values))), math.ceil(math.log2(max(values)))
    high = max(high, low + 1)
    inner = _WIDTH - _LEFT - 70

    def x(value: float) -> float:
        return _LEFT + inner * (math.log2(value) - low) / (high - low)

    height = _TOP + _ROW * len(rows) + 40
    bottom = _TOP + _ROW * len(rows)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        'font-family="system-ui, sans-serif" font-size="13">',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        f'<text x="12" y="22" font-size="16" font-weight="600">{escape(title)}</text>',
        f'<text x="12" y="42" fill="#4a5568">{escape(subtitle)}</text>',
    ]
    for power in range(low, high + 1):
        at, label = x(2.0**power), f"{2.0**power:g}x"
        colour = "#1a202c" if power == 0 else "#e2e8f0"
        parts.append(f'<line x1="{at:.1f}" y1="{_TOP - 4}" x2="{at:.1f}" y2="{bottom}" stroke="{colour}"/>')
        parts.append(f'<text x="{at:.1f}" y="{bottom + 16}" text-anchor="middle" fill="#4a5568">{label}</text>')
    for n, (name, ratio) in enumerate(rows):
        y = _TOP + _ROW * n
        start, end = sorted((x(1.0), x(ratio)))
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 15}" text-anchor="end">{escape(name)}</text>')
        parts.append(
            f'<rect x="{start:.1f}" y="{y + 3}" width="{max(end - start, 1):.1f}" height="{_ROW - 6}" '
            f'fill="{_FASTER if ratio >= 1 else _SLOWER}"/>'
        )
        if name in best:
            left = x(best[name]) - 1.5
            parts.append(f'<rect x="{left:.1f}" y="{y + 1}" width="3" height="{_ROW - 2}" fill="{_BEST}"/>')
        parts.append(f'<text x="{_WIDTH - 12}" y="{y + 15}" text-anchor="end">{ratio:.2f}x</text>')
    legend = "bar: over JAX (XLA:CPU)" + ("; grey mark: over the fastest of all others" if best else "")
    parts.append(f'<text x="{_LEFT}" y="{bottom + 34}" fill="#4a5568">{legend}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"

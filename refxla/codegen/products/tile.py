"""The tile of a matrix product: the part of the result that lies in vector registers."""

from __future__ import annotations

from dataclasses import dataclass

from .packing import VECTORS, vector_type


@dataclass(frozen=True)
class Tile:
    """The part of the result that lives in registers: `rows` times `vectors` vectors of accumulation type `name`, of
    `bytes` each: 32, or 64 where the target has them."""

    rows: int
    vectors: int
    name: str
    bytes: int = 32

    @property
    def lanes(self) -> int:
        return VECTORS[self.name][1] * self.bytes // 32

    @property
    def columns(self) -> int:
        return self.vectors * self.lanes

    @property
    def vector(self) -> str:
        return vector_type(self.name, self.bytes)

    def multiply_add(self, a: str, b: str, total: str) -> str:
        """The C expression of total + a * b, vectors all."""
        return f"rx_multiply_add_{'wide' if self.bytes == 64 else 'vector'}_{self.name}({a}, {b}, {total})"

    def places(self, sums: str, first: str = "") -> dict[str, str]:
        """The C variable of each sum, row after row, and its place in an array of them, from number `first` on."""
        numbers = ((i, v, i * self.vectors + v) for i in range(self.rows) for v in range(self.vectors))
        return {f"c{i}_{v}": f"{sums}[{first and f'{first} + '}{n}]" for i, v, n in numbers}

"""The pool: no two live blocks overlap, whatever the order of taking and giving back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refxla._core import buffer_pool

SIZES = st.one_of(st.integers(0, 300), st.integers(0, 3 << 20), st.sampled_from([64, 128, 4096, 65536, (4 << 20) + 1]))


@given(st.lists(st.tuples(SIZES, st.integers(0, 7)), max_size=40))
def test_no_two_live_blocks_overlap(actions):
    slots: dict[int, tuple[buffer_pool.PoolBlock, int]] = {}
    for number, (size, slot) in enumerate(actions):
        slots.pop(slot, None)  # gives the block back
        block = buffer_pool.allocate(size)
        assert len(block) == size
        assert block.address % (4096 if size >= 65536 else 64) == 0
        for other, _ in slots.values():
            first, second = sorted([(block.address, size), (other.address, len(other))])
            assert first[0] + max(1, first[1]) <= second[0]
        mark = number % 251
        np.frombuffer(block, np.uint8)[:] = mark
        slots[slot] = (block, mark)
    for block, mark in slots.values():
        assert (np.frombuffer(block, np.uint8) == mark).all()


def test_a_view_keeps_its_block():
    block = buffer_pool.allocate(1 << 16)
    address = block.address
    view = np.frombuffer(block, np.uint8)[100:200]
    del block
    others = [buffer_pool.allocate(1 << 16) for _ in range(4)]
    assert address not in [b.address for b in others]
    del view
    assert address == buffer_pool.allocate(1 << 16).address


def test_what_is_kept_is_limited_and_can_be_returned():
    buffer_pool.trim()
    old = buffer_pool.set_limit(1 << 20)
    try:
        blocks = [buffer_pool.allocate(100_000) for _ in range(30)]
        live, kept = buffer_pool.usage()
        assert live >= 3_000_000 and kept == 0
        del blocks
        after, kept = buffer_pool.usage()
        assert after <= live - 3_000_000 and 0 < kept <= 1 << 20
        assert buffer_pool.trim() == kept and buffer_pool.usage()[1] == 0
        del after
        large = buffer_pool.allocate(2 << 20)
        del large  # more than may be kept
        assert buffer_pool.usage()[1] == 0
    finally:
        buffer_pool.set_limit(old)


def test_no_memory():
    with pytest.raises(MemoryError, match="no memory for|address space"):
        buffer_pool.allocate(1 << 49)
    with pytest.raises((MemoryError, OverflowError)):
        buffer_pool.allocate(1 << 63)

"""The sequence ids of a batch's messages, which official clients write behind the other metadata of each. Pure.

They count up from the batch's own sequence id, so that what else the messages state is often the same for all of them.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

_TAG = 0x40
_NUMBER_MAX = 2**63 - 1


def sections(first: int, count: int) -> Iterator[tuple[int, int]]:
    """Yield the parts of a batch whose fields ``first`` to ``first + count - 1`` have the same length: how many
    messages, and the bytes of the field."""
    at, end = first, first + count
    while at < end:
        width = max(1, (at.bit_length() + 6) // 7)
        until = min(end, 1 << 7 * width)
        yield until - at, 1 + width
        at = until


def fields(first: int, count: int, size: int) -> Any:
    """Return the encoded fields of a section, a row for each."""
    numbers = np.arange(first, first + count, dtype=np.int64)
    table = np.empty((count, size), np.uint8)
    table[:, 0] = _TAG
    for i in range(1, size):
        table[:, i] = numbers & 0x7F | (0x80 if i + 1 < size else 0)
        numbers >>= 7
    return table


def is_numbered(first: int, count: int, metadata: bytes) -> bool:
    """Return whether ``metadata``, of the first of ``count`` messages, ends with the field of ``first``."""
    if first + count > _NUMBER_MAX:
        return False
    size = next(sections(first, 1))[1]
    return metadata.endswith(fields(first, 1, size).tobytes())

"""The column ``value``: payloads stay in the buffers that they were read into until one copy gathers them."""

from typing import Any

import numpy as np
import pyarrow as pa

_Block = tuple[bytes, list[Any], list[Any]]


class ValueBuffer:
    """Payloads in order: runs of them in a buffer, and single ones."""

    def __init__(self) -> None:
        self._blocks: list[_Block | list[bytes | None]] = []
        self.held = 0
        """Bytes of all values."""

    def add(self, value: bytes | None) -> None:
        if not self._blocks or not isinstance(self._blocks[-1], list):
            self._blocks.append([])
        block = self._blocks[-1]
        assert isinstance(block, list)
        block.append(value)
        self.held += len(value or b"")

    def add_spans(self, buf: bytes, starts: Any, stops: Any, valid: Any = None) -> None:
        """Add the values from ``starts`` to ``stops`` in ``buf``, arrays of ascending offsets; null where ``valid``,
        an array of booleans, is false."""
        bounds = np.empty(2 * len(starts), np.int32)
        bounds[::2], bounds[1::2] = starts, stops
        if valid is None:
            valid = np.ones(len(starts), np.bool_)
        last = self._blocks[-1] if self._blocks else None
        # A run's batches are in one buffer, which is copied from once.
        if isinstance(last, tuple) and last[0] is buf and last[1][-1][-1] <= bounds[0]:
            last[1].append(bounds)
            last[2].append(valid)
        else:
            self._blocks.append((buf, [bounds], [valid]))
        self.held += int(bounds[1::2].sum(dtype=np.int64) - bounds[::2].sum(dtype=np.int64))

    def taken(self) -> pa.Array:
        """Return all values as an array."""
        arrays = [
            pa.array(block, pa.binary()) if isinstance(block, list) else _gathered(*block)
            for block in self._blocks
        ]
        if len(arrays) == 1:
            return arrays[0]
        return pa.concat_arrays(arrays) if arrays else pa.array([], pa.binary())


def _gathered(buf: bytes, bounds: list[Any], valid: list[Any]) -> pa.Array:
    offsets, chosen = np.concatenate(bounds), np.concatenate(valid)
    count = len(offsets) - 1
    # Every other item of an array of adjacent items is a value, and the items between them are what separates values.
    items = pa.Array.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(buf)]
    )
    return items.take(pa.array(np.arange(0, count, 2, dtype=np.int32), mask=~chosen))

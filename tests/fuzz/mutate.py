"""Seeded mutations of good inputs: the same seed gives the same inputs."""

import random
from collections.abc import Sequence

NUMBERS = (
    0,
    1,
    2,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0xFFFF,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFF,
    (1 << 63) - 1,
    1 << 63,
)
INPUT_BYTES_MAX = 64 << 10


class Mutator:
    """Endless inputs made of ``seeds``, the good ones first; ``words`` may be inserted anywhere."""

    def __init__(self, seeds: Sequence[bytes], words: Sequence[bytes] = (), seed: int = 1) -> None:
        assert seeds, "a target needs a good input"
        self._seeds = list(seeds)
        self._words = list(words)
        self._random = random.Random(seed)
        self._given = 0

    def next(self) -> bytes:
        if self._given < len(self._seeds):
            self._given += 1
            return self._seeds[self._given - 1]
        return self.changed(self._random.choice(self._seeds))

    def changed(self, good: bytes) -> bytes:
        """Return ``good`` with some mutations."""
        data = bytearray(good)
        for _ in range(self._random.choice((1, 1, 1, 2, 2, 3, 5, 9))):
            self._change(data)
        return bytes(data[:INPUT_BYTES_MAX])

    def _change(self, data: bytearray) -> None:
        draw = self._random
        at = draw.randrange(len(data) + 1)
        match draw.randrange(10 if self._words else 9):
            case 0 if at < len(data):
                data[at] ^= 1 << draw.randrange(8)
            case 1 if at < len(data):
                data[at] = draw.randrange(256)
            case 2:
                del data[at : at + draw.choice((1, 1, 4, 30))]
            case 3:
                data[at:at] = draw.randbytes(draw.choice((1, 1, 2, 8, 40)))
            case 4:
                stop = at + draw.randrange(1, 60)
                data[at:at] = data[at:stop]
            case 5:
                del data[at:]
            case 6:
                other = draw.choice(self._seeds)
                begin = draw.randrange(len(other) + 1)
                data[at:] = other[begin:]
            case 7:
                width = draw.choice((1, 2, 4, 8))
                number = draw.choice(NUMBERS) & ((1 << 8 * width) - 1)
                data[at : at + width] = number.to_bytes(width, draw.choice(("big", "little")))
            case 8:
                data[at : at + 1] = b"\xff" * draw.randrange(1, 10) + b"\x01"  # a large varint
            case 9:
                data[at:at] = draw.choice(self._words)

"""Targets of fuzzing: how a parser is called, what it may raise, and good inputs to begin with.

``run`` parses, and uses a result as the product would. ``sealed`` corrects checksums and lengths of a mutated input, so
that the code behind those checks is reached; both forms are tried.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

GOLDEN = Path(__file__).parents[1] / "golden"
Errors = tuple[type[Exception], ...]


@dataclass(frozen=True)
class Target:
    """``errors`` are the module's named ones: anything else that ``run`` raises is a finding."""

    name: str
    run: Callable[[bytes], None]
    seeds: list[bytes]
    errors: Errors = ()
    sealed: Callable[[bytes], bytes] | None = None
    words: list[bytes] = field(default_factory=list)
    """Bytes that mutations may insert."""


def golden(name: str, side: str) -> list[bytes]:
    rows = [json.loads(line) for line in (GOLDEN / name).read_text().splitlines()]
    return [bytes.fromhex(row[side]) for row in rows if row[side] != "connection closed"]


def recorded(direction: str) -> list[bytes]:
    """Return recorded Pulsar frames of one direction, the shorter ones."""
    frames: dict[bytes, None] = {}
    for path in sorted((GOLDEN / "wire").glob("*.jsonl")):
        for line in path.read_text().splitlines()[1:]:
            row = json.loads(line)
            if row.get("dir") == direction and len(row.get("hex") or "") in range(2, 4000):
                frames[bytes.fromhex(row["hex"])] = None
    return list(frames)

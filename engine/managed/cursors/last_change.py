"""What is kept of a cursor's last change by hand, with the state that it left and in the same write. Pure.

JSON; ``before`` and ``after`` are PositionInfos in base64. Whoever loads the cursor can tell whether a change happened,
and undo it. See docs/formats/managed-ledger.md.
"""

import base64
import json
import zlib
from dataclasses import asdict, dataclass, field

from engine.managed.errors import StoredRecordError

STATES_BYTES_MAX = 256 << 10
"""Both states together; a change between larger ones is made without a way back, and says so before."""
SPENT_MAX = 64
PACKED_FROM = 1 << 10
"""Bytes of both states from which they are compressed: they go with each write of the cursor's state."""
KEPT_MS = 15 * 60 * 1000
"""Trimming keeps what a change passed for so long after it, so that it can be taken back, whatever retention says."""


def is_kept(at_ms: int, now_ms: int) -> bool:
    """Whether trimming still keeps what a change made at ``at_ms`` passed. That may be by another broker's clock: one
    that is far ahead does not keep ledgers until then."""
    return abs(now_ms - at_ms) < KEPT_MS


@dataclass(frozen=True, slots=True)
class LastChange:
    """``id``: of the token that confirmed it; ``undoes``: of the change that it took back. ``at_ms``: by the broker's
    clock. ``by``: who, empty for nobody known. ``what``: skip-all, skip, reset, undo. ``lost``, ``again``: entries.
    ``lost_messages``, ``again_messages``: None when not known, ``exact`` False when estimated.

    ``before``, ``after``: the whole state then; empty when they were too large to keep. ``spent``: ids and times of
    earlier changes whose tokens could still be shown.
    """

    id: str
    at_ms: int
    by: str
    what: str
    lost: int
    again: int
    lost_messages: int | None
    again_messages: int | None
    exact: bool
    before: bytes = b""
    after: bytes = b""
    undoes: str = ""
    spent: dict[str, int] = field(default_factory=dict)

    @property
    def can_be_undone(self) -> bool:
        return bool(self.before)

    def spent_since(self, since_ms: int) -> dict[str, int]:
        """Ids of this and earlier changes that were made at ``since_ms`` or later."""
        return {
            key: at for key, at in {**self.spent, self.id: self.at_ms}.items() if at >= since_ms
        }

    def encode(self) -> bytes:
        known = asdict(self)
        packed = len(self.before) + len(self.after) > PACKED_FROM
        for name in ("before", "after"):
            state = zlib.compress(known[name], 1) if packed else known[name]
            known[name] = base64.b64encode(state).decode()
        if packed:
            known["packed"] = True
        return json.dumps(known, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, value: bytes) -> "LastChange":
        """Raises StoredRecordError."""
        try:
            known = json.loads(value)
            packed = known.pop("packed", False)
            for name in ("before", "after"):
                state = base64.b64decode(known[name], validate=True)
                known[name] = _unpacked(state) if packed else state
            return cls(**known)
        except (ValueError, TypeError, KeyError, AttributeError, zlib.error) as error:
            raise StoredRecordError(f"last change of a cursor: {error}") from error


def _unpacked(state: bytes) -> bytes:
    """Return the state of at most STATES_BYTES_MAX in ``state``. Raises zlib.error, ValueError."""
    unpack = zlib.decompressobj()
    found = unpack.decompress(state, STATES_BYTES_MAX + 1)
    if len(found) > STATES_BYTES_MAX or not unpack.eof:
        raise ValueError(f"a state of more than {STATES_BYTES_MAX} bytes, or one that is cut off")
    return found

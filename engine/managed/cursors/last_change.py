"""The record of a cursor's last change by an administrator, stored in the same write as the state that it left. Pure.

JSON; ``before`` and ``after`` are PositionInfos in base64. An owner that loads the cursor can thereby see whether a
change was made, and undo it. See docs/formats/managed-ledger.md.
"""

import base64
import json
import zlib
from dataclasses import asdict, dataclass, field

from engine.managed.errors import StoredRecordError

STATES_BYTES_MAX = 256 << 10
"""Bytes of both states together. A change between larger ones cannot be undone, as its preview states."""
SPENT_MAX = 64
"""Ids of earlier changes kept; more changes are refused until the oldest expire."""
PACKED_FROM = 1 << 10
"""Bytes of both states from which on they are compressed: they are part of each write of the cursor's state."""
KEPT_MS = 15 * 60 * 1000
"""Time after a change for which trimming keeps the entries that it passed, regardless of retention, so that it can be
undone."""


def is_kept(at_ms: int, now_ms: int) -> bool:
    """Return whether trimming still keeps the entries that a change made at ``at_ms`` passed. That time may be by
    another broker's clock; if that clock was far ahead, the entries are not kept."""
    return abs(now_ms - at_ms) < KEPT_MS


@dataclass(frozen=True, slots=True)
class LastChange:
    """A change. ``id``: of the token that confirmed it. ``undoes``: id of the change that it undid. ``at_ms``: by the
    broker's clock. ``by``: the user, empty when unknown. ``what``: skip-all, skip, reset, undo. ``lost``, ``again``:
    numbers of entries. ``lost_messages``, ``again_messages``: None when not known; ``exact`` False when estimated.

    ``before``, ``after``: the complete states; empty when they were too large to store. ``spent``: ids and times of
    earlier changes whose tokens may still be presented.
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
        """Return the ids and times of this and earlier changes that were made at ``since_ms`` or later."""
        return {
            key: at for key, at in {**self.spent, self.id: self.at_ms}.items() if at >= since_ms
        }

    def encode(self) -> bytes:
        fields = asdict(self)
        packed = len(self.before) + len(self.after) > PACKED_FROM
        for name in ("before", "after"):
            state = zlib.compress(fields[name], 1) if packed else fields[name]
            fields[name] = base64.b64encode(state).decode()
        if packed:
            fields["packed"] = True
        return json.dumps(fields, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, value: bytes) -> "LastChange":
        """Decode a stored record. Raises StoredRecordError."""
        try:
            fields = json.loads(value)
            packed = fields.pop("packed", False)
            for name in ("before", "after"):
                state = base64.b64decode(fields[name], validate=True)
                fields[name] = _unpacked(state) if packed else state
            return cls(**fields)
        except (ValueError, TypeError, KeyError, AttributeError, zlib.error) as error:
            raise StoredRecordError(f"last change of a cursor: {error}") from error


def _unpacked(state: bytes) -> bytes:
    """Return the decompressed state, of at most STATES_BYTES_MAX. Raises zlib.error, ValueError."""
    unpack = zlib.decompressobj()
    unpacked = unpack.decompress(state, STATES_BYTES_MAX + 1)
    if len(unpacked) > STATES_BYTES_MAX or not unpack.eof:
        raise ValueError(f"a state of more than {STATES_BYTES_MAX} bytes, or one that is cut off")
    return unpacked

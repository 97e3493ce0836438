"""Points at which a bookie process is killed: every operation of its storage, and the part of its life that has it.

``serve``: while it receives adds; ``replay``: in the start after a crash; ``format``: in its very first start.
"""

from typing import Literal, NamedTuple

Part = Literal["serve", "replay", "format"]


class Point(NamedTuple):
    """An operation of a LossyDisk, only below the function ``inside`` if that is given. ``often``: it recurs."""

    part: Part
    operation: str
    inside: str = ""
    often: bool = True

    def __str__(self) -> str:
        return f"{self.part}:{self.operation}{f' in {self.inside}' if self.inside else ''}"


def points(part: Part, inside: str, kind: str, names: str, *, often: bool = True) -> list[Point]:
    """Return a point for each of the operations ``names`` of files of that kind."""
    return [Point(part, f"{kind}.{name}", inside, often) for name in names.split()]


SECURE = (("manifest", "write sync"), ("index", "flush"))
"""Operations that make decisions of garbage collection and compaction durable."""

SERVE = [
    *points("serve", "", "journal", "write sync create fill sync_fill sync_dir header sync_header"),
    *points("serve", "Flusher.flush", "entrylog", "create header sync_dir write sync"),
    *points("serve", "Flusher.flush", "manifest", "write"),
    *points("serve", "Flusher.flush", "index", "write"),
    *points("serve", "Flusher.checkpoint", "manifest", "sync"),
    *points("serve", "Flusher.checkpoint", "index", "write flush"),
    *points("serve", "Flusher.checkpoint", "lastmark", "create write sync rename sync_dir"),
    *points("serve", "JournalWriter.recycle", "journal", "remove"),
]
GARBAGE = [
    *points("serve", "forget_ledgers", "index", "write"),
    *(point for kind, names in SECURE for point in points("serve", "forget_ledgers", kind, names)),
    *(point for kind, names in SECURE for point in points("serve", "retire_logs", kind, names)),
    *points("serve", "remove_logs", "entrylog", "remove sync_dir"),
]
COMPACTION = [
    *points("serve", "Copier.copy", "entrylog", "create header sync_dir write"),
    *points("serve", "Copier.sync", "entrylog", "sync"),
    *(point for kind, names in SECURE for point in points("serve", "announce", kind, names)),
    *points("serve", "switch", "index", "write"),
]
REPLAY = [
    *points("replay", "", "index", "open write flush", often=False),
    *points("replay", "", "journal", "sync_again header sync_header", often=False),
    *points("replay", "", "entrylog", "create header sync_dir write sync", often=False),
    *points("replay", "", "manifest", "create write sync sync_dir", often=False),
    *points("replay", "", "lastmark", "create write sync rename sync_dir", often=False),
    *points("replay", "Manifest.remove_old", "manifest", "remove sync_dir", often=False),
    *points("replay", "open_storage", "entrylog", "remove", often=False),
]
FORMAT = [
    *points("format", "", "formatting", "create sync sync_dir remove", often=False),
    *points("format", "", "cookie", "create write sync rename sync_dir", often=False),
    *points("format", "format_storage", "manifest", "create write sync sync_dir", often=False),
    *points(
        "format", "format_storage", "lastmark", "create write sync rename sync_dir", often=False
    ),
    *points("format", "format_storage", "index", "open write flush", often=False),
    *points("format", "format_storage", "nothing", "sync_dir", often=False),
    *points(
        "format", "", "journal", "create fill sync_fill sync_dir header sync_header", often=False
    ),
]
POINTS = [*SERVE, *GARBAGE, *COMPACTION, *REPLAY, *FORMAT]
UNNAMED = {
    *(f"{kind}.truncate" for kind in ("lastmark", "cookie", "manifest")),
    *(f"scrub.{name}" for name in ("create", "write", "truncate", "sync", "rename")),
}
"""Operations where a crash has the same effect as at the write before them, and those of the scrubber's position:
without it, or with a damaged one, the next start begins another pass."""

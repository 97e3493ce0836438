"""Where a bookie process is killed: every operation of its storage by name, and in which part of its life it comes.

``serve``: while it takes adds; ``replay``: in the start after a crash; ``format``: in its very first start.
"""

from typing import Literal, NamedTuple

Part = Literal["serve", "replay", "format"]


class Point(NamedTuple):
    """An operation of a LossyDisk, only below function ``inside`` if that is given. ``often``: it comes many times."""

    part: Part
    operation: str
    inside: str = ""
    often: bool = True

    def __str__(self) -> str:
        return f"{self.part}:{self.operation}{f' in {self.inside}' if self.inside else ''}"


MARK = (
    "lastmark.create",
    "lastmark.write",
    "lastmark.sync",
    "lastmark.rename",
    "lastmark.sync_dir",
)
FILL = ("journal.create", "journal.fill", "journal.sync_fill", "journal.sync_dir")
BEGIN = ("journal.header", "journal.sync_header")
LOG = ("entrylog.create", "entrylog.header", "entrylog.sync_dir", "entrylog.write", "entrylog.sync")

POINTS = [
    *(Point("serve", name) for name in ("journal.write", "journal.sync", *FILL, *BEGIN, *LOG)),
    Point("serve", "index.write", "flush"),
    Point("serve", "index.flush", "checkpoint"),
    *(Point("serve", name, "checkpoint") for name in MARK),
    Point("serve", "journal.remove", "recycle"),
    Point("serve", "index.write", "collect"),
    Point("serve", "index.flush", "collect"),
    Point("serve", "entrylog.remove", "remove_logs"),
    Point("serve", "entrylog.sync_dir", "remove_logs"),
    Point("replay", "index.open", often=False),
    Point("replay", "journal.sync_again", often=False),
    *(Point("replay", name, often=False) for name in (*BEGIN, *LOG)),
    Point("replay", "index.write", often=False),
    Point("replay", "index.flush", often=False),
    *(Point("replay", name, often=False) for name in MARK),
    Point("replay", "entrylog.remove", "open_storage", often=False),
    *(
        Point("format", f"formatting.{name}", often=False)
        for name in ("create", "sync", "sync_dir")
    ),
    *(Point("format", f"cookie.{name}", often=False) for name in ("create", "write", "sync")),
    Point("format", "cookie.sync_dir", often=False),
    Point("format", "index.open", often=False),
    Point("format", "index.write", "format_storage", often=False),
    Point("format", "index.flush", "format_storage", often=False),
    *(Point("format", name, "format_storage", often=False) for name in MARK),
    Point("format", "nothing.sync_dir", often=False),
    Point("format", "formatting.remove", often=False),
    *(Point("format", name, often=False) for name in (*FILL, *BEGIN)),
]
UNNAMED = {"lastmark.truncate", "cookie.truncate"}
"""Seen, but nothing that a crash could do there differs from the write before them."""

"""BookKeeper's HTTP pages of a bookie, ``/api/v1/bookie/*``, with its paths, methods and texts, and our page of the
scrubber. They know no client: what changes something is refused unless the operator allows it.
"""

import json
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any
from urllib.parse import parse_qs

from bookie.server import Bookie
from bookie.storage.logs.log_files import log_name
from engine.base.errors import MagnetarError
from engine.metadata import paths
from engine.metadata.store import MetadataStore, NoNodeError
from engine.net.http import (
    CHANGES_REFUSED,
    PageTable,
    Request,
    Response,
    answered,
    json_response,
    text,
)

PREFIX = "/api/v1/bookie/"
COMPACTED_SHARE = 0.8
"""Live share below which a requested collection compacts a log, unless the request says another."""

Spawn = Callable[[str, Coroutine[Any, Any, None]], object]


class BookiePages:
    """The pages of one bookie; ``changes`` allows changes, ``spawn`` starts what a request only asks for, ``sane``
    writes a ledger to the bookie and returns whether it can be read."""

    def __init__(
        self,
        bookie: Bookie,
        store: MetadataStore,
        spawn: Spawn,
        sane: Callable[[], Awaitable[bool]],
        *,
        changes: bool,
    ) -> None:
        self._bookie = bookie
        self._store = store
        self._spawn = spawn
        self._sane = sane
        self._changes = changes
        self._pages: PageTable = {
            ("GET", "scrub"): self._scrub,
            ("PUT", "scrub"): self._scrub_now,
            ("GET", "state"): self._state,
            ("GET", "state/readonly"): self._read_only,
            ("PUT", "state/readonly"): self._set_read_only,
            ("GET", "is_ready"): self._is_ready,
            ("GET", "gc"): self._gc,
            ("PUT", "gc"): self._collect,
            ("GET", "list_bookies"): self._list_bookies,
            ("GET", "list_disk_file"): self._files,
            ("GET", "last_log_mark"): self._last_mark,
            ("GET", "sanity"): self._sanity,
        }

    async def answer(self, request: Request) -> Response | None:
        """Answer a request of these pages; None for another path."""
        return await answered(self._pages, PREFIX, request, changes=self._changes)

    async def _state(self, request: Request) -> Response:
        bookie = self._bookie
        return json_response(
            200,
            {
                "running": bookie.failed is None,
                "readOnly": bookie.read_only,
                "shuttingDown": bookie.over.is_set(),
                "availableForHighPriorityWrites": bookie.serving.disks.has_room(),
            },
        )

    async def _read_only(self, request: Request) -> Response:
        return json_response(200, {"readOnly": self._bookie.read_only})

    async def _set_read_only(self, request: Request) -> Response:
        """Make the bookie read-only, or writable as far as its disks allow, until it restarts."""
        asked = json.loads(request.body)["readOnly"]
        if not isinstance(asked, bool):
            raise TypeError(f"readOnly must be true or false, not {asked!r}")
        self._bookie.mode.ask("requested over HTTP" if asked else "")
        return await self._read_only(request)

    async def _is_ready(self, request: Request) -> Response:
        reason = self._bookie.why_not_ready()
        return text(200, "OK\n") if reason is None else text(503, reason)

    async def _gc(self, request: Request) -> Response:
        garbage = self._bookie.serving.garbage
        return json_response(200, {"is_in_force_gc": str(garbage.forced).lower()})

    async def _collect(self, request: Request) -> Response:
        asked = json.loads(request.body or b"{}")
        share = float(asked.get("majorCompactionThreshold", COMPACTED_SHARE))
        if not 0 < share < 1:
            raise ValueError(f"majorCompactionThreshold must be between 0 and 1, not {share}")
        garbage = self._bookie.serving.garbage
        if not garbage.forced:
            garbage.forced = True
            self._spawn("requested garbage collection", garbage.collect_now(share))
        return json_response(200, "Triggered GC on BookieServer: " + self._bookie.bookie_id)

    async def _list_bookies(self, request: Request) -> Response:
        query = parse_qs(request.query)
        kind = query.get("type", ["rw"])[-1]
        if kind not in ("rw", "ro"):
            raise ValueError(f"type must be rw or ro, not {kind!r}")
        named = query.get("print_hostnames", ["false"])[-1].lower() == "true"
        parent = paths.AVAILABLE if kind == "rw" else paths.READ_ONLY
        try:
            listed = await self._store.children(parent)
        except NoNodeError:
            listed = []
        bookies = [bookie for bookie in sorted(listed) if bookie != "readonly"]
        return json_response(
            200, {bookie: bookie.rpartition(":")[0] if named else None for bookie in bookies}
        )

    async def _files(self, request: Request) -> Response:
        """List entry logs and the journal's files; the index is a database."""
        serving = self._bookie.serving
        lists = {
            "index": "",
            "journal": "".join(f"{name}\t" for name in serving.storage.journal.files()),
            "entrylog": "".join(f"{log_name(log_id)}\t" for log_id in serving.storage.logs.ids()),
        }
        kind = parse_qs(request.query).get("file_type", [""])[-1]
        if kind and kind not in lists:
            raise ValueError(f"file_type must be one of {', '.join(lists)}, not {kind[:40]!r}")
        return json_response(
            200, {f"{name} files": files for name, files in lists.items() if kind in ("", name)}
        )

    async def _last_mark(self, request: Request) -> Response:
        mark = self._bookie.serving.journal.mark
        return json_response(
            200,
            {
                f"LastLogMark: Journal Id - {mark.file_id}({mark.file_id:x}.txn)": f"Pos - {mark.offset}"
            },
        )

    async def _sanity(self, request: Request) -> Response:
        """Write a ledger to the bookie and read it, unless it is read-only."""
        read_only = self._bookie.read_only
        if not read_only and not self._changes:
            return text(403, CHANGES_REFUSED)
        try:
            passed = not read_only and await self._sane()
        except (MagnetarError, TimeoutError):
            passed = False
        return json_response(200, {"passed": passed, "readOnly": read_only})

    async def _scrub(self, request: Request) -> Response:
        return json_response(200, self._bookie.serving.scrubber.state())

    async def _scrub_now(self, request: Request) -> Response:
        self._bookie.serving.scrubber.hurry()
        return await self._scrub(request)

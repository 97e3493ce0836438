"""BookKeeper's HTTP pages about the upkeep of a bookie: garbage collection in detail, suspended compaction, compaction
of the index, added directories, and its settings. With BookKeeper's paths, methods and texts.

They know no client. Changes are refused unless the operator allows them, and so are the settings, which name files and
addresses; secrets are never shown.
"""

import json
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from bookie.garbage import CompactionKind
from bookie.server import Bookie
from bookie.settings import PROGRAM, ProcessSettings
from engine.base.settings import HIDDEN, settings_of
from engine.metadata import paths
from engine.metadata.store import MetadataStore, NoNodeError
from engine.net.http import PageTable, Request, Response, answered, json_response, text

PREFIX = "/api/v1/bookie/"
CONFIG_PREFIX = "/api/v1/config/"
SETTINGS_HIDDEN = "Settings are not shown: see the setting http_server_changes_enabled"
SETTINGS_FIXED = "Settings are read at the start: change them there, and restart the bookie"

Spawn = Callable[[str, Coroutine[Any, Any, Any]], object]


class MaintenancePages:
    """The pages of one bookie; ``changes`` allows changes, ``spawn`` starts what a request only asks for."""

    def __init__(
        self,
        bookie: Bookie,
        settings: ProcessSettings,
        store: MetadataStore,
        spawn: Spawn,
        *,
        changes: bool,
    ) -> None:
        self._bookie = bookie
        self._settings = settings
        self._store = store
        self._spawn = spawn
        self._changes = changes
        self._pages: PageTable = {
            ("GET", "gc_details"): self._details,
            ("GET", "gc/suspend_compaction"): self._suspended,
            ("PUT", "gc/suspend_compaction"): self._switch("suspend", is_suspended=True),
            ("PUT", "gc/resume_compaction"): self._switch("resume", is_suspended=False),
            ("GET", "entry_location_compact"): self._index,
            ("PUT", "entry_location_compact"): self._compact_index,
            ("PUT", "expand_storage"): self._expand,
        }
        self._config: PageTable = {
            ("GET", "server_config"): self._shown_settings,
            ("PUT", "server_config"): self._set,
        }

    async def answer(self, request: Request) -> Response | None:
        """Answer a request of these pages; None for another path."""
        page = await answered(self._pages, PREFIX, request, changes=self._changes)
        return page or await answered(self._config, CONFIG_PREFIX, request, changes=self._changes)

    async def _details(self, request: Request) -> Response:
        garbage = self._bookie.serving.garbage
        major, minor, index = garbage.major, garbage.minor, garbage.index
        page = {
            "forceCompacting": garbage.forced,
            "majorCompacting": major.running,
            "minorCompacting": minor.running,
            "lastMajorCompactionTime": major.ended_ms,
            "lastMinorCompactionTime": minor.ended_ms,
            "lastEntryLocationCompactionTime": index.ended_ms,
            "majorCompactionCounter": major.rounds,
            "minorCompactionCounter": minor.rounds,
            "entryLocationCompactionCounter": index.rounds,
        }
        return json_response(200, [page])

    async def _suspended(self, request: Request) -> Response:
        garbage = self._bookie.serving.garbage
        return json_response(
            200,
            {
                "isMinorGcSuspended": str(garbage.minor.suspended).lower(),
                "isMajorGcSuspended": str(garbage.major.suspended).lower(),
            },
        )

    def _switch(self, verb: str, *, is_suspended: bool) -> Callable[[Request], Awaitable[Response]]:
        """Return the page that suspends or resumes the kinds of compaction that its body names, until a restart."""

        async def page(request: Request) -> Response:
            if not request.body:
                return text(400, "Empty request body")
            asked = json.loads(request.body)
            garbage = self._bookie.serving.garbage
            kinds: dict[str, CompactionKind] = {"Major": garbage.major, "Minor": garbage.minor}
            given = {kind: asked[verb + kind] for kind in kinds if verb + kind in asked}
            if not given:
                return text(400, f"No {verb}Major or {verb}Minor params found")
            if wrong := [kind for kind, value in given.items() if not isinstance(value, bool)]:
                raise TypeError(f"{verb}{wrong[0]} must be true or false")
            done = [kind for kind, value in given.items() if value]
            for kind in done:
                kinds[kind].suspended = is_suspended
            named = f"{verb.capitalize()} %sGC on BookieServer: {self._name}"
            return json_response(200, ", ".join(named % kind.lower() for kind in done))

        return page

    @property
    def _name(self) -> str:
        """The bookie as BookKeeper prints it."""
        bookie = self._bookie
        address = f"{bookie.settings.host}:{bookie.port}"
        return f"Bookie Server listening on {address} with id {bookie.bookie_id}"

    # The index

    @property
    def _index_path(self) -> str:
        return f"{self._bookie.serving.storage.logs.directories[0]}/index"

    async def _index(self, request: Request) -> Response:
        return json_response(200, {self._index_path: self._bookie.serving.garbage.index.running})

    async def _compact_index(self, request: Request) -> Response:
        if not request.body:
            return text(400, "Empty request body")
        asked = json.loads(request.body)
        wanted = asked.get("entryLocationRocksDBCompact", False)
        if not isinstance(wanted, bool):
            raise TypeError("entryLocationRocksDBCompact must be true or false")
        if not wanted:
            return text(200, "Not trigger Entry Location RocksDB compact.")
        path, named = self._index_path, str(asked.get("entryLocations", ""))
        if named and {part.strip() for part in named.split(",")} != {path}:
            return json_response(
                400,
                f"Specified trigger compact entryLocations: {named[:200]} is invalid. "
                f"Bookie entry location RocksDB path: [{path}].",
            )
        garbage = self._bookie.serving.garbage
        if not garbage.index.running:
            self._spawn("requested compaction of the index", garbage.compact_index())
        of = f": {path} compact on bookie:{self._bookie.bookie_id}."
        every = f" compact on bookie:{self._bookie.bookie_id}"
        what = "entry Location RocksDB"
        return json_response(200, f"Triggered {what}{of if named else every}")

    # Directories and settings

    async def _expand(self, request: Request) -> Response:
        """Confirm that all configured directories are in use: the start adds them, which reads the settings."""
        try:
            stored, _ = await self._store.get(paths.cookie(self._bookie.bookie_id))
        except NoNodeError:
            stored = b""
        if stored != self._bookie.serving.disks.cookie:
            return text(500, "The stored cookie has other directories than this bookie uses")
        return text(200, "Success expand storage")

    async def _shown_settings(self, request: Request) -> Response:
        """Return all settings, by BookKeeper's names where the meaning and the unit are the same."""
        if not self._changes:
            return text(403, SETTINGS_HIDDEN)
        shown: dict[str, str] = {}
        for name, group, is_private in PROGRAM.groups():
            values = getattr(self._settings, name)
            for setting in settings_of(group, PROGRAM.name, is_private):
                value = getattr(values, setting.item.name)
                if isinstance(value, bool):
                    value = str(value).lower()
                plain = "" if value is None else str(value)
                shown[setting.pulsar_name or setting.name] = (
                    HIDDEN if setting.is_secret and plain else plain
                )
        return json_response(200, shown)

    async def _set(self, request: Request) -> Response:
        return text(403, SETTINGS_FIXED)

"""BookKeeper's HTTP pages of auto-recovery, ``/api/v1/autorecovery/*``, and its page about the cluster's bookies, with
its paths, methods and texts.

They change the cluster and know no client: changes are refused unless the operator allows them.
"""

import json
from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import parse_qs

from engine.base.errors import MisuseError
from engine.metadata import paths
from engine.metadata.store import MetadataStore, NoNodeError
from engine.net.http import PageTable, Request, Response, answered, json_response, text
from engine.repair.auto_recovery import AutoRecovery
from engine.repair.bookie_changes import decommission, recover_bookies
from engine.repair.election import auditor
from engine.repair.ledger_listing import children
from engine.repair.pages.bookie_spaces import free_and_total, spaces

PREFIX = "/api/v1/autorecovery/"
BOOKIE_PREFIX = "/api/v1/bookie/"
DECOMMISSION_S = 86400.0
LISTED_MAX = 100_000

Spawn = Callable[[str, Coroutine[Any, Any, Any]], object]


class AutoRecoveryPages:
    """The pages of one process. ``spawn`` starts what a request only asks for; ``changes`` allows changes."""

    def __init__(
        self, store: MetadataStore, recovery: AutoRecovery, spawn: Spawn, *, changes: bool
    ) -> None:
        self._store = store
        self._recovery = recovery
        self._records = recovery.records
        self._spawn = spawn
        self._changes = changes
        self._pages: PageTable = {
            ("GET", "status"): self._status,
            ("PUT", "status"): self._set_status,
            ("GET", "who_is_auditor"): self._who_is_auditor,
            ("GET", "list_under_replicated_ledger"): self._list,
            ("PUT", "trigger_audit"): self._trigger_audit,
            ("GET", "lost_bookie_recovery_delay"): self._delay,
            ("PUT", "lost_bookie_recovery_delay"): self._set_delay,
            ("PUT", "decommission"): self._decommission,
            ("PUT", "bookie"): self._recover,
        }
        self._bookies: PageTable = {
            ("GET", "cluster_info"): self._cluster_info,
            ("GET", "list_bookie_info"): self._list_spaces,
        }

    async def answer(self, request: Request) -> Response | None:
        """Answer a request of these pages; None for another path."""
        if not request.path.startswith(PREFIX):
            return await answered(self._bookies, BOOKIE_PREFIX, request, changes=self._changes)
        answer = await answered(self._pages, PREFIX, request, changes=self._changes)
        return answer or text(404, "Not found method. Should be GET or PUT method")

    async def _status(self, request: Request) -> Response:
        return json_response(200, {"enabled": await self._records.enabled()})

    async def _set_status(self, request: Request) -> Response:
        value = parse_qs(request.query).get("enabled", [""])[-1].lower()
        if value not in ("true", "false"):
            return text(400, f"Param 'enabled' not found in {request.query!r}")
        await self._records.enable(value == "true")
        return await self._status(request)

    async def _who_is_auditor(self, request: Request) -> Response:
        listed = await auditor(self._store)
        return (
            text(404, "No auditor elected") if listed is None else text(200, f"Auditor: {listed}")
        )

    async def _list(self, request: Request) -> Response:
        query = parse_qs(request.query)
        missing = query.get("missingreplica", [None])[-1]
        other = query.get("excludingmissingreplica", [None])[-1]
        named = query.get("printmissingreplica", ["false"])[-1].lower() == "true"
        listed: dict[int, list[str]] = {}
        async for ledger_id in self._records.marked():
            bookies: list[str] = []
            if named or missing or other:
                bookies = list(await self._records.lost_bookies(ledger_id))
            if (missing and missing not in bookies) or (other and other in bookies):
                continue
            listed[ledger_id] = bookies
            if len(listed) >= LISTED_MAX:
                break
        if not listed:
            return text(404, "No under replicated ledgers found")
        ordered = sorted(listed)
        return json_response(200, {str(n): listed[n] for n in ordered} if named else ordered)

    async def _cluster_info(self, request: Request) -> Response:
        """Return how many bookies there are, and whether ledgers are repaired."""
        writable = {*await children(self._store, paths.AVAILABLE)} - {"readonly"}
        read_only = {*await children(self._store, paths.READ_ONLY)}
        cookies = {*await children(self._store, paths.COOKIES)}
        elected = await auditor(self._store)
        marked = False
        async for _ in self._records.marked():
            marked = True
            break
        return json_response(
            200,
            {
                "auditorElected": elected is not None,
                "auditorId": elected or "",
                "clusterUnderReplicated": marked,
                "ledgerReplicationEnabled": await self._records.enabled(),
                "totalBookiesCount": len(cookies),
                "writableBookiesCount": len(writable),
                "readonlyBookiesCount": len(read_only),
                "unavailableBookiesCount": len(cookies - writable - read_only),
            },
        )

    async def _list_spaces(self, request: Request) -> Response:
        """Return the room on each bookie, of those that answer, and the sum."""
        listed = await spaces(self._store, self._recovery.client)
        known = {bookie: space for bookie, space in listed.items() if space is not None}
        if not known:
            return text(404, "Failed to retrieve bookie info.")
        page = {bookie: f": {free_and_total(space)}," for bookie, space in known.items()}
        free, total = (sum(values) for values in zip(*known.values(), strict=True))
        return json_response(200, page | {"ClusterInfo: ": free_and_total((free, total))})

    async def _trigger_audit(self, request: Request) -> Response:
        try:
            await self._records.trigger_audit()
        except NoNodeError:
            return text(404, "No auditor has run yet")
        return text(200, "Success trigger audit.")

    async def _delay(self, request: Request) -> Response:
        try:
            delay = await self._records.delay_s()
        except NoNodeError:
            return text(404, "lostBookieRecoveryDelay is not set: no auditor has run yet")
        return text(200, f"lostBookieRecoveryDelay value: {delay:.0f}")

    async def _set_delay(self, request: Request) -> Response:
        delay = int(json.loads(request.body)["delay_seconds"])
        try:
            await self._records.set_delay(delay)
        except MisuseError as error:
            return text(400, str(error))
        return text(200, f"Success set lostBookieRecoveryDelay to {delay}")

    async def _decommission(self, request: Request) -> Response:
        body = json.loads(request.body)
        bookie = str(body["bookie_src"])
        work = decommission(
            self._store,
            self._records,
            bookie,
            timeout_s=DECOMMISSION_S,
            delete_cookie=str(body.get("delete_cookie", "true")).lower() == "true",
        )
        self._spawn(f"decommission {bookie}", work)
        return text(200, f"Success send decommission Bookie command {bookie}")

    async def _recover(self, request: Request) -> Response:
        bookies = [str(bookie) for bookie in json.loads(request.body)["bookie_src"]]
        work = recover_bookies(self._store, self._recovery.repair, bookies)
        self._spawn(f"recover {','.join(bookies)}", work)
        return text(200, "Success send recovery request command.")

"""BookKeeper's HTTP pages of ledgers, ``/api/v1/ledger/*``, with its paths, methods and texts.

They show every ledger's metadata and entries to everyone who reaches the port, because they know no client: they are
not served unless the operator shows ledgers, and nothing is deleted unless changes are allowed as well. Passwords are
never shown.
"""

import base64
from contextlib import suppress
from itertools import islice
from typing import Any
from urllib.parse import parse_qs

from engine.ledger.client import LedgerClient
from engine.ledger.errors import NoSuchLedgerError
from engine.ledger.ledger_metadata import LedgerMetadata, LedgerState
from engine.metadata import paths
from engine.metadata.store import MetadataStore, NoNodeError
from engine.net.http import PageTable, Request, Response, answered, json_response, text
from engine.repair.ledger_listing import ledgers

PREFIX = "/api/v1/ledger/"
LISTED_MAX = 100_000
LISTED_ON_PAGE = 100
"""Ledgers whose metadata a page of the list has."""
ENTRIES_ON_PAGE = 1000
READ_BYTES_MAX = 4 << 20
FORMAT = 3
LEDGERS_HIDDEN = "Ledgers are not shown: see the setting http_server_ledgers_enabled"


class LedgerPages:
    """The pages of one process. ``shows`` allows to list and read ledgers, ``changes`` to delete them."""

    def __init__(
        self, store: MetadataStore, client: LedgerClient, *, shows: bool, changes: bool
    ) -> None:
        self._store = store
        self._client = client
        self._shows = shows
        self._changes = changes
        self._pages: PageTable = {
            ("GET", "list"): self._list,
            ("GET", "metadata"): self._metadata,
            ("GET", "read"): self._read,
            ("DELETE", "delete"): self._delete,
        }

    async def answer(self, request: Request) -> Response | None:
        """Answer a request of these pages; None for another path."""
        if not request.path.startswith(PREFIX):
            return None
        if not self._shows:
            return text(403, LEDGERS_HIDDEN)
        try:
            answer = await answered(self._pages, PREFIX, request, changes=self._changes)
        except NoSuchLedgerError as error:
            return text(404, str(error))
        return answer or text(404, "Not found method. Should be GET or DELETE method")

    async def _list(self, request: Request) -> Response:
        """List all ledgers, or the metadata of a page of them."""
        query = parse_qs(request.query)
        listed = sorted([n async for batch in ledgers(self._store) for n, _ in batch])
        if query.get("print_metadata", ["false"])[-1].lower() != "true":
            return json_response(200, {str(n): None for n in islice(listed, LISTED_MAX)})
        page = _number(query, "page", 1, low=1)
        shown = listed[(page - 1) * LISTED_ON_PAGE : page * LISTED_ON_PAGE]
        return json_response(200, {str(n): await self._stored(n) for n in shown})

    async def _stored(self, ledger_id: int) -> Any:
        try:
            return metadata_json(ledger_id, await self._client.metadata(ledger_id))
        except NoSuchLedgerError:
            return None  # deleted since it was listed

    async def _metadata(self, request: Request) -> Response:
        query = parse_qs(request.query)
        if "ledger_id" not in query:
            return text(404, "Not found method. Should be GET method, with ledger_id provided")
        ledger_id = _number(query, "ledger_id", low=0)
        metadata = await self._client.metadata(ledger_id)
        return json_response(200, {str(ledger_id): metadata_json(ledger_id, metadata)})

    async def _read(self, request: Request) -> Response:
        """Return entries as text, up to the last confirmed one, without fencing the ledger."""
        query = parse_qs(request.query)
        if "ledger_id" not in query:
            return text(404, "Not found method. Should be GET method, with ledger_id provided")
        ledger_id = _number(query, "ledger_id", low=0)
        first = _number(query, "start_entry_id", 0, low=0)
        last = _number(query, "end_entry_id", -1)
        shown: dict[str, str] = {}
        if "page" in query:
            page = _number(query, "page", low=1)
            first += (page - 1) * ENTRIES_ON_PAGE
            shown["Entries for page: "] = str(page)
        metadata = await self._client.metadata(ledger_id)
        reader = await self._client.open(
            ledger_id, metadata.password or b"", recover=False, known=metadata
        )
        last = reader.last_confirmed if last < 0 else min(last, reader.last_confirmed)
        last = min(last, first + ENTRIES_ON_PAGE - 1)
        size = 0
        while first <= last and size < READ_BYTES_MAX:
            for run in await reader.read(first, last, READ_BYTES_MAX - size):
                for i in range(run.count):
                    shown[str(run.first + i)] = run.entry(i).decode(errors="replace")
                first, size = run.first + run.count, size + run.size
        return json_response(200, shown)

    async def _delete(self, request: Request) -> Response:
        query = parse_qs(request.query)
        if "ledger_id" not in query:
            return text(404, "Not ledger found. Should provide ledger_id=<id>")
        ledger_id = _number(query, "ledger_id", low=0)
        with suppress(NoNodeError):  # deleted already is deleted, as for BookKeeper
            await self._store.delete(paths.ledger(ledger_id))
        return json_response(200, f"Deleted ledger: {ledger_id}")


def _number(
    query: dict[str, list[str]], name: str, default: int | None = None, *, low: int | None = None
) -> int:
    """Return a parameter. Raises ValueError naming it."""
    given = query.get(name, ["" if default is None else str(default)])[-1]
    try:
        number = int(given)
    except ValueError:
        raise ValueError(f"{name} must be a number, not {given[:40]!r}") from None
    if not (low is None or number >= low) or number >= 1 << 63:
        raise ValueError(f"{name} must be {low or 0} or more, not {number}")
    return number


def metadata_json(ledger_id: int, metadata: LedgerMetadata) -> dict[str, Any]:
    """Return a ledger's metadata as BookKeeper's page shows it, but for its password."""
    return {
        "ledgerId": ledger_id,
        "metadataFormatVersion": FORMAT,
        "ensembleSize": metadata.ensemble_size,
        "writeQuorumSize": metadata.write_quorum,
        "ackQuorumSize": metadata.ack_quorum,
        "state": metadata.state.name,
        "length": metadata.length,
        "lastEntryId": metadata.last_entry,
        "ctime": -1 if metadata.ctime_ms is None else metadata.ctime_ms,
        "digestType": None if metadata.digest is None else metadata.digest.name,
        "customMetadata": {
            name: base64.b64encode(value).decode() for name, value in metadata.custom.items()
        },
        "closed": metadata.state is LedgerState.CLOSED,
        "allEnsembles": {
            str(segment.first): [{"id": bookie} for bookie in segment.bookies]
            for segment in metadata.segments
        },
        "ctoken": metadata.ctoken,
    }

"""Bookies for the overview: who ever registered, who is there now, whether it answers, and how much room it reports."""

import json
from functools import partial
from typing import Any

from engine.metadata import paths
from engine.metadata.records import BookieRegistration, RecordFormatError
from engine.metadata.store import MetadataStore, NoNodeError
from engine.net.http_client import HttpClient, HttpError
from engine.net.network import LoopNetwork
from engine.tenancy.nodes import children
from gateway.services.health.asking import ANSWER_S, Asker, UnwellError
from gateway.services.health.hops import HopState, Kind

ANSWER_BYTES_MAX = 4096
INFO_PAGE = "/api/v1/bookie/info"

Space = tuple[int, int]


class Bookies:
    """Has each bookie's page asked on and on, and keeps what the store and the pages last said. For one event loop."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker
        self._client = HttpClient(
            LoopNetwork(), timeout_s=2 * ANSWER_S, answer_bytes_max=ANSWER_BYTES_MAX
        )
        self._states: dict[str, str] = {}
        self._pages: dict[str, str | None] = {}
        """By bookie, where its page is; None: its registration names none. Kept when the registration goes."""
        self._space: dict[str, Space] = {}

    async def refresh(self, store: MetadataStore) -> None:
        """Who is registered. Store errors pass through, and what was known stays. Cancel-safe."""
        writable = set(await children(store, paths.AVAILABLE)) - {"readonly"}
        read_only = set(await children(store, paths.READ_ONLY)) - writable
        cookies = set(await children(store, paths.COOKIES))
        for bookie in writable:
            self._pages[bookie] = await _page(store, paths.available_bookie(bookie))
        for bookie in read_only:
            self._pages[bookie] = await _page(store, paths.read_only_bookie(bookie))
        self._states = {
            **dict.fromkeys(cookies, "down"),
            **dict.fromkeys(read_only, "read-only"),
            **dict.fromkeys(writable, "writable"),
        }
        for bookie in self._states:
            self._asker.ask(Kind.BOOKIE, bookie, partial(self._ask, bookie))
        for bookie in set(self._asker.asked(Kind.BOOKIE)) - self._states.keys():
            self._asker.stop(Kind.BOOKIE, bookie)
            self._space.pop(bookie, None)
            self._pages.pop(bookie, None)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """``{id, state, free_bytes, total_bytes}`` by id; the bytes are None where no page ever told them."""
        return [self._row(bookie) for bookie in sorted(self._states)]

    def _row(self, bookie: str) -> dict[str, Any]:
        state = self._states[bookie]
        hop = self._asker.hops.expect(Kind.BOOKIE, bookie)
        if hop.state in (HopState.SLOW, HopState.DOWN):
            state = hop.state.value
        free, total = self._space.get(bookie) or (None, None)
        return {"id": bookie, "state": state, "free_bytes": free, "total_bytes": total}

    async def _ask(self, bookie: str) -> None:
        page = self._pages.get(bookie)
        if self._states[bookie] == "down":
            raise UnwellError("is not there: it was registered before and is not now")
        if page is None:
            return  # there is nothing to ask but the metadata, which has it
        try:
            answer = await self._client.request("GET", page)
        except HttpError as error:
            raise UnwellError(f"does not answer: {error}") from None
        if answer.status == 200:
            try:
                said = json.loads(answer.body)
                self._space[bookie] = int(said["freeSpace"]), int(said["totalSpace"])
            except (ValueError, KeyError, TypeError):
                raise UnwellError(f"gives no usable answer at {page}", slow=True) from None

    def close(self) -> None:
        self._client.close()


async def _page(store: MetadataStore, node: str) -> str | None:
    """None when it is gone or has no page."""
    try:
        value, _ = await store.get(node)
        url = BookieRegistration.decode(value).http_url()
    except (NoNodeError, RecordFormatError):
        return None
    return None if url is None else url + INFO_PAGE

"""Bookies for the overview: who ever registered, who is there now, and how much room each one's own page reports."""

import asyncio
import json
import time
from typing import Any

from engine.metadata import paths
from engine.metadata.records import BookieRegistration, RecordFormatError
from engine.metadata.store import MetadataStore, NoNodeError
from engine.net.http_client import HttpClient, HttpError
from engine.net.network import LoopNetwork
from engine.tenancy.nodes import children

SPACE_INTERVAL_S = 10.0
"""Bookies look at their disks about this often."""
ANSWER_TIMEOUT_S = 2.0
ANSWER_BYTES_MAX = 4096
INFO_PAGE = "/api/v1/bookie/info"

Space = tuple[int, int]


class Bookies:
    """Keeps the space that bookies last reported. For one event loop."""

    def __init__(self) -> None:
        self._space: dict[str, Space | None] = {}
        self._asked_at = -SPACE_INTERVAL_S

    async def rows(self, store: MetadataStore) -> list[dict[str, Any]]:
        """``{id, state, free_bytes, total_bytes}`` by id; the bytes are None where no page tells them. Store errors
        pass through. Cancel-safe."""
        writable = set(await children(store, paths.AVAILABLE)) - {"readonly"}
        read_only = set(await children(store, paths.READ_ONLY))
        cookies = set(await children(store, paths.COOKIES))
        if time.monotonic() - self._asked_at >= SPACE_INTERVAL_S:
            self._asked_at = time.monotonic()
            nodes = {bookie: paths.available_bookie(bookie) for bookie in writable}
            nodes |= {bookie: paths.read_only_bookie(bookie) for bookie in read_only - writable}
            self._space = await _ask_all(store, nodes)

        def row(bookie: str) -> dict[str, Any]:
            state = "read-only" if bookie in read_only else "down"
            free, total = self._space.get(bookie) or (None, None)
            return {
                "id": bookie,
                "state": "writable" if bookie in writable else state,
                "free_bytes": free,
                "total_bytes": total,
            }

        return [row(bookie) for bookie in sorted(writable | read_only | cookies)]


async def _ask_all(store: MetadataStore, nodes: dict[str, str]) -> dict[str, Space | None]:
    client = HttpClient(
        LoopNetwork(), timeout_s=ANSWER_TIMEOUT_S, answer_bytes_max=ANSWER_BYTES_MAX
    )
    try:
        answers = await asyncio.gather(*(_ask(store, client, node) for node in nodes.values()))
    finally:
        client.close()
    return dict(zip(nodes, answers, strict=True))


async def _ask(store: MetadataStore, client: HttpClient, node: str) -> Space | None:
    """Free and total bytes of a bookie; None when it is gone, has no page, or does not answer in time."""
    try:
        value, _ = await store.get(node)
        url = BookieRegistration.decode(value).http_url()
    except (NoNodeError, RecordFormatError):
        return None
    if url is None:
        return None
    try:
        answer = await client.request("GET", url + INFO_PAGE)
        if answer.status != 200:
            return None
        said = json.loads(answer.body)
        return int(said["freeSpace"]), int(said["totalSpace"])
    except (HttpError, ValueError, KeyError, TypeError):
        return None

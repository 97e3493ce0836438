"""Bookies for the console: who ever registered, who is there now, whether it answers, and what it reports of itself."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

from engine.metadata import paths
from engine.metadata.records import BookieRegistration, RecordFormatError
from engine.metadata.store import MetadataStore, NoNodeError
from engine.net.http_client import HttpClient, HttpError
from engine.net.network import LoopNetwork
from engine.tenancy.nodes import children
from gateway.services.health.asking import ANSWER_S, Asker, UnwellError
from gateway.services.health.hops import BAD, HopState, Kind

T = TypeVar("T")

ANSWER_BYTES_MAX = 4096
INFO_PAGE = "/api/v1/bookie/info"

REGISTERS_MS = 10_000
"""Bookies lose their registrations with a metadata store that stays away, and have so long to register again."""
SPACE_SHARE = 1_000
"""Room that changed by less than one in so many parts of the disk is no news."""


class Place(NamedTuple):
    """Where a bookie is by its registration: ``host:port``, empty where that does not say; its page, if it has one."""

    address: str
    page: str | None


NOWHERE = Place("", None)


class Told(NamedTuple):
    """What a bookie's page says; None: it does not, as Apache's. ``since``: since when it is read-only or writable, ms.
    ``usage`` of its fullest disk, read-only from ``limit`` on and writable again below ``writable``, 0 to 1."""

    free: int
    total: int
    ledgers: int | None = None
    since: int | None = None
    reason: str = ""
    usage: float | None = None
    limit: float | None = None
    writable: float | None = None

    @classmethod
    def of(cls, page: dict[str, Any]) -> "Told":
        """Raises KeyError, TypeError or ValueError for what is no such page."""

        def given(name: str, kind: Callable[[Any], T]) -> T | None:
            value = page.get(name)
            return None if value is None else kind(value)

        return cls(
            int(page["freeSpace"]),
            int(page["totalSpace"]),
            given("ledgers", int),
            given("since", int),
            given("reason", str) or "",
            given("usage", float),
            given("usageLimit", float),
            given("usageWritable", float),
        )


class Bookies:
    """Has each bookie's page asked on and on, and keeps what the store and the pages last said. For one event loop.
    ``version`` grows when that is something else, beside what the hops say. ``now``: ms since the epoch."""

    def __init__(self, asker: Asker, now: Callable[[], int]) -> None:
        self.version = 0
        self._asker = asker
        self._now = now
        self._client = HttpClient(
            LoopNetwork(), timeout_s=2 * ANSWER_S, answer_bytes_max=ANSWER_BYTES_MAX
        )
        self._states: dict[str, str] = {}
        self._places: dict[str, Place] = {}
        """By bookie. Kept when the registration goes."""
        self._told: dict[str, Told] = {}
        self._at: dict[str, int] = {}
        """When each told something last, ms."""

    async def refresh(self, store: MetadataStore) -> None:
        """Who is registered. Store errors pass through, and what was known stays. Cancel-safe."""
        writable = set(await children(store, paths.AVAILABLE)) - {"readonly"}
        read_only = set(await children(store, paths.READ_ONLY)) - writable
        cookies = set(await children(store, paths.COOKIES))
        for bookie in writable:
            self._places[bookie] = await _place(store, bookie, paths.available_bookie(bookie))
        for bookie in read_only:
            self._places[bookie] = await _place(store, bookie, paths.read_only_bookie(bookie))
        states = {
            **dict.fromkeys(cookies, "down"),
            **dict.fromkeys(read_only, "read-only"),
            **dict.fromkeys(writable, "writable"),
        }
        if states != self._states:
            self._states = states
            self.version += 1
        for bookie in self._states:
            self._asker.ask(Kind.BOOKIE, bookie, partial(self._ask, bookie))
        for bookie in set(self._asker.asked(Kind.BOOKIE)) - self._states.keys():
            self._asker.stop(Kind.BOOKIE, bookie)
            self._told.pop(bookie, None)
            self._at.pop(bookie, None)
            self._places.pop(bookie, None)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """As of the contract, by id; what no page ever told is None, and what it does not tell now is ``last``."""
        return [self._row(bookie) for bookie in sorted(self._states)]

    def _row(self, bookie: str) -> dict[str, Any]:
        state = self._states[bookie]
        hop = self._asker.hops.expect(Kind.BOOKIE, bookie)
        if hop.state in (HopState.SLOW, HopState.DOWN):
            state = hop.state.value
        elif state == "down" and self._registers():
            state = "slow"
        page = self._told.get(bookie)
        told = "live" if hop.state is HopState.OK else "last"
        return {
            "id": bookie,
            "address": self._places.get(bookie, NOWHERE).address,
            "state": state,
            "since": (page and page.since) or hop.since if state == "read-only" else hop.since,
            "known": "no" if page is None else told,
            "at": self._at.get(bookie, 0),
            "free_bytes": page and page.free,
            "total_bytes": page and page.total,
            "ledgers": page and page.ledgers,
            "reason": page.reason if page and state == "read-only" else "",
            "usage": page and page.usage,
            "usage_limit": page and page.limit,
            "usage_writable": page and page.writable,
        }

    def _registers(self) -> bool:
        """Whether one without a registration may have lost it with the metadata store."""
        hop = self._asker.hops.expect(Kind.STORE)
        is_back = hop.state is HopState.OK and self._now() - hop.since < REGISTERS_MS
        return is_back or hop.state in BAD

    async def _ask(self, bookie: str) -> None:
        page = self._places.get(bookie, NOWHERE).page
        if self._states[bookie] == "down":
            if self._registers():
                raise UnwellError("has not registered again yet", slow=True)
            raise UnwellError("is gone (no longer registered)")
        if page is None:
            return  # there is nothing to ask but the metadata, which has it
        try:
            answer = await self._client.request("GET", page)
        except HttpError as error:
            raise UnwellError(f"does not answer: {error}") from None
        if answer.status == 404:
            return  # it serves pages, and not this one: its registration is all that is known of it
        if answer.status != 200:
            raise UnwellError(f"answers {answer.status} at {page}", slow=True)
        try:
            self._has(bookie, Told.of(json.loads(answer.body)))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise UnwellError(f"gives no usable answer at {page}", slow=True) from None

    def _has(self, bookie: str, told: Told) -> None:
        self._at[bookie] = self._now()
        known = self._told.get(bookie)
        is_near = known is not None and abs(known.free - told.free) <= told.total // SPACE_SHARE
        # What is told of a full disk moves with the room.
        same = known and known._replace(free=told.free, usage=told.usage, reason=told.reason)
        if not is_near or same != told:
            self._told[bookie] = told
            self.version += 1

    def close(self) -> None:
        self._client.close()


async def _place(store: MetadataStore, bookie: str, node: str) -> Place:
    try:
        value, _ = await store.get(node)
        registered = BookieRegistration.decode(value)
    except (NoNodeError, RecordFormatError):
        return NOWHERE
    url = registered.http_url()
    page = None if url is None else url + INFO_PAGE
    try:
        host, port = registered.address(bookie)
    except RecordFormatError:
        return Place("", page)
    return Place(f"{host}:{port}", page)

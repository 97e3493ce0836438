"""Bookies for the console: all that ever registered, whether each is registered and answers, and what it reports."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

from engine.metadata import paths
from engine.metadata.apart.routed import BOOKKEEPER
from engine.metadata.records import BookieRegistration, RecordFormatError
from engine.metadata.store import MetadataStore, NoNodeError
from engine.net.http_client import HttpClient, HttpError
from engine.net.network import LoopNetwork
from engine.tenancy.nodes import children
from gateway.services.health.checks import ANSWER_S, Checks, NotKnownError, UnwellError
from gateway.services.health.hops import BAD, HopState, Kind

T = TypeVar("T")

ANSWER_BYTES_MAX = 4096
INFO_PAGE = "/api/v1/bookie/info"

LISTED = "/apache/bookies"
"""Bookies that a cluster of Apache Pulsar lists, without their states."""
REGISTERS_MS = 10_000
"""Time that bookies have to register again after an outage of the metadata store ended their sessions."""
SPACE_SHARE = 1_000
"""Share of the disk, one in so many parts, by which the free space must change before a change is reported."""


class BookieAddress(NamedTuple):
    """Addresses in a bookie's registration: ``host:port``, empty where it has none; the URL of its information
    page, None without one."""

    address: str
    page: str | None


NOWHERE = BookieAddress("", None)


class PageValues(NamedTuple):
    """The values of a bookie's information page; None where the page lacks one, as that of Apache BookKeeper does.

    ``free`` and ``total`` are bytes, ``stored`` those of ledgers that were not deleted; ``since`` is when it became
    read-only or writable, in ms. ``usage`` is that of its fullest disk, 0 to 1: the bookie becomes read-only at
    ``limit`` and writable again below ``writable``.
    """

    free: int
    total: int
    ledgers: int | None = None
    since: int | None = None
    reason: str = ""
    usage: float | None = None
    limit: float | None = None
    writable: float | None = None
    stored: int | None = None

    @classmethod
    def of(cls, page: dict[str, Any]) -> "PageValues":
        """Return the values of a decoded page. Raises KeyError, TypeError or ValueError for any other JSON."""

        def optional(name: str, kind: Callable[[Any], T]) -> T | None:
            value = page.get(name)
            return None if value is None else kind(value)

        return cls(
            int(page["freeSpace"]),
            int(page["totalSpace"]),
            optional("ledgers", int),
            optional("since", int),
            optional("reason", str) or "",
            optional("usage", float),
            optional("usageLimit", float),
            optional("usageWritable", float),
            optional("storedBytes", int),
        )


class Bookies:
    """The states of all bookies by the metadata store and by their information pages, which are read repeatedly.

    Used on one event loop. ``version`` grows when a row changes, unless only the state of its hop does. ``now``: ms
    since the epoch.
    """

    def __init__(self, checks: Checks, now: Callable[[], int]) -> None:
        self.version = 0
        self._checks = checks
        self._now = now
        self._client = HttpClient(
            LoopNetwork(), timeout_s=2 * ANSWER_S, answer_bytes_max=ANSWER_BYTES_MAX
        )
        self._states: dict[str, str] = {}
        self._addresses: dict[str, BookieAddress] = {}
        """Places by bookie, kept when the registration is deleted."""
        self._pages: dict[str, PageValues] = {}
        self._at: dict[str, int] = {}
        """Time of each bookie's last page, ms."""

    async def refresh(self, store: MetadataStore) -> None:
        """Read the registrations from the store. Store errors pass through, and what was known stays. Cancel-safe."""
        writable = set(await children(store, paths.AVAILABLE)) - {"readonly"}
        read_only = set(await children(store, paths.READ_ONLY)) - writable
        cookies = set(await children(store, paths.COOKIES))
        for bookie in writable:
            self._addresses[bookie] = await _address(store, bookie, paths.available_bookie(bookie))
        for bookie in read_only:
            self._addresses[bookie] = await _address(store, bookie, paths.read_only_bookie(bookie))
        states = {
            **dict.fromkeys(await children(store, LISTED), "unknown"),
            **dict.fromkeys(cookies, "down"),
            **dict.fromkeys(read_only, "read-only"),
            **dict.fromkeys(writable, "writable"),
        }
        if states != self._states:
            self._states = states
            self.version += 1
        for bookie in self._states:
            self._checks.start(Kind.BOOKIE, bookie, partial(self._check, bookie))
        for bookie in set(self._checks.checked(Kind.BOOKIE)) - self._states.keys():
            self._checks.stop(Kind.BOOKIE, bookie)
            self._pages.pop(bookie, None)
            self._at.pop(bookie, None)
            self._addresses.pop(bookie, None)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Rows for the console, by id. Values that no page ever had are None; those of a page that does not answer now
        are ``known`` as ``last``."""
        return [self._row(bookie) for bookie in sorted(self._states)]

    def _row(self, bookie: str) -> dict[str, Any]:
        state = self._states[bookie]
        hop = self._checks.hops.expect(Kind.BOOKIE, bookie)
        if hop.state in (HopState.SLOW, HopState.DOWN):
            state = hop.state.value
        elif state == "down" and self._may_register():
            state = "slow"
        page = self._pages.get(bookie)
        known = "live" if hop.state is HopState.OK else "last"
        return {
            "id": bookie,
            "address": self._addresses.get(bookie, NOWHERE).address,
            "state": state,
            "since": (page and page.since) or hop.since if state == "read-only" else hop.since,
            "known": "no" if page is None else known,
            "at": self._at.get(bookie, 0),
            "free_bytes": page and page.free,
            "total_bytes": page and page.total,
            "ledgers": page and page.ledgers,
            "stored_bytes": page and page.stored,
            "reason": page.reason if page and state == "read-only" else "",
            "usage": page and page.usage,
            "usage_limit": page and page.limit,
            "usage_writable": page and page.writable,
        }

    def _may_register(self) -> bool:
        """Return whether bookies without a registration may have lost it by an outage of the metadata store."""
        apart = [hop for hop in self._checks.hops.of(Kind.STORE) if hop.id == BOOKKEEPER]
        hop = apart[0] if apart else self._checks.hops.expect(Kind.STORE)
        is_back = hop.state is HopState.OK and self._now() - hop.since < REGISTERS_MS
        return is_back or hop.state in BAD

    async def _check(self, bookie: str) -> None:
        page = self._addresses.get(bookie, NOWHERE).page
        if self._states[bookie] == "unknown":
            raise NotKnownError("is listed by the cluster, which does not state whether it answers")
        if self._states[bookie] == "down":
            if self._may_register():
                raise UnwellError("has not registered again yet", slow=True)
            raise UnwellError("is gone (no longer registered)")
        if page is None:
            return  # without a page its registration is all that is known of it
        try:
            answer = await self._client.request("GET", page)
        except HttpError as error:
            raise UnwellError(f"does not answer: {error}") from None
        if answer.status == 404:
            return  # as without a page: its HTTP server does not have this one
        if answer.status != 200:
            raise UnwellError(f"answers {answer.status} at {page}", slow=True)
        try:
            self._update(bookie, PageValues.of(json.loads(answer.body)))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise UnwellError(f"gives no usable answer at {page}", slow=True) from None

    def _update(self, bookie: str, page: PageValues) -> None:
        self._at[bookie] = self._now()
        known = self._pages.get(bookie)
        little = page.total // SPACE_SHARE
        is_near = (
            known is not None
            and abs(known.free - page.free) <= little
            and abs((known.stored or 0) - (page.stored or 0)) <= little
        )
        # The usage, and the reason that quotes it, change with the free space: alone they are no change.
        same = known and known._replace(
            free=page.free, usage=page.usage, reason=page.reason, stored=page.stored
        )
        if not is_near or same != page:
            self._pages[bookie] = page
            self.version += 1

    def close(self) -> None:
        self._client.close()


async def _address(store: MetadataStore, bookie: str, node: str) -> BookieAddress:
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
        return BookieAddress("", page)
    return BookieAddress(f"{host}:{port}", page)

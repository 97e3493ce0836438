"""A cached store while clients write, calls are slow, connections break and sessions end: each read is compared
with the history of the tree."""

import asyncio
from contextlib import suppress
from random import Random
from typing import NamedTuple

import pytest

from engine.base.names import NamespaceName
from engine.metadata.cached import CachedStore, derived, derived_children, forget, fresh
from engine.metadata.memory import Fault, MemoryServer
from engine.metadata.store import (
    BadVersionError,
    MetadataStore,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SessionExpiredError,
    SessionState,
    StoreUnavailableError,
)

pytestmark = pytest.mark.virtual_time

TIMEOUT_S = 3.0
DELAY_S = 0.1
"""Longest time that a request or its answer, and later events, are under way."""
CUT_OFF_S = TIMEOUT_S
"""Greatest age of an answer while the service does not answer: the session is SUSPENDED by then."""
NS = NamespaceName.parse("public/default")
TOPIC = NS.topic("x")
PARENT = f"/managed-ledgers/{NS}/persistent"
PATHS = [f"{PARENT}/{name}" for name in ("x", "x-partition-0", "y")]
REFUSED = (BadVersionError, NodeExistsError, NoNodeError, NotEmptyError)
LOST = (StoreUnavailableError, SessionExpiredError)


class State(NamedTuple):
    """A node's state from ``at`` on."""

    at: float
    value: bytes | None
    children: tuple[str, ...] | None


class HistoryServer(MemoryServer):
    """A server that keeps each node's states and their times."""

    def __init__(self, chance: Random) -> None:
        super().__init__(on_call=self._delay)
        self.chance = chance
        self.history: dict[str, list[State]] = {path: [] for path in (*PATHS, PARENT)}
        self._record(list(self.history))

    def _delay(self, session: int, op: str, path: str) -> Fault | None:
        if self.chance.random() < 0.5:
            return None
        return Fault(self.chance.random() * DELAY_S, self.chance.random() * DELAY_S)

    def _record(self, paths: list[str]) -> None:
        now = asyncio.get_running_loop().time()
        for path in paths:
            if path in self.history:
                exists = self.tree.exists(path) is not None
                value = self.tree.get(path)[0] if exists else None
                children = tuple(self.tree.children(path)) if exists else None
                self.history[path].append(State(now, value, children))

    def _notify(self, paths: list[str]) -> None:
        self._record(paths)
        super()._notify(paths)


class Checker:
    """A check of each answer. ``_seen`` has, by path and kind of read, the index of the oldest state still allowed."""

    def __init__(self, server: HistoryServer) -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._seen: dict[tuple[str, str], int] = {}
        self.cut_off_until = 0.0
        self.checked = 0

    def check(
        self, path: str, kind: str, answer: object, begun: float, floor: int, *, asked: bool
    ) -> None:
        """Check an answer. ``floor`` is the state seen when the read began; ``asked`` forbids an answer from memory."""
        states = self._server.history[path]
        bound = 0.0 if asked else DELAY_S * 2
        if begun < self.cut_off_until and not asked:
            bound = CUT_OFF_S
        true = [
            index
            for index, state in enumerate(states)
            if getattr(state, kind) == answer
            and (index + 1 == len(states) or states[index + 1].at >= begun - bound)
        ]
        assert true, f"{path} {kind}: {answer!r} was not true since {begun - bound}: {states}"
        assert true[-1] >= floor, f"{path} {kind}: {answer!r} is older than what was seen before"
        first = min(index for index in true if index >= floor)
        self._seen[path, kind] = max(self._seen.get((path, kind), 0), first)
        self.checked += 1

    def floor(self, path: str, kind: str) -> int:
        return self._seen.get((path, kind), 0)

    def demand(self, path: str) -> None:
        """Require that reads from now on see the present state."""
        for read_path in (path, PARENT):
            for kind in ("value", "children"):
                self._seen[read_path, kind] = len(self._server.history[read_path]) - 1


def itself(content: object, path: str) -> object:
    return content


async def read(store: CachedStore, path: str, how: str) -> tuple[str, object]:
    """Return the kind of the answer, and the answer."""
    try:
        match how:
            case "get":
                return "value", (await store.get(path))[0]
            case "derived":
                return "value", await derived(store, path, itself)
            case "fresh":
                return "value", (await fresh(store, path).get(path))[0]
            case "derived_children":
                return "children", await derived_children(store, path, itself)
        return "children", tuple(await store.children(path))
    except NoNodeError:
        return ("children" if "children" in how else "value"), None


async def change(store: MetadataStore, chance: Random, path: str, value: bytes) -> None:
    match chance.randrange(4):
        case 0:
            await store.delete(path)
        case 1:
            await store.create(path, value, make_parents=True)
        case _:
            await store.put(path, value)


@pytest.mark.parametrize("seed", range(30))
async def test_every_answer_was_true_and_none_goes_back(seed: int) -> None:
    chance = Random(seed)
    server = HistoryServer(chance)
    below = server.session(TIMEOUT_S)
    cached = CachedStore(below, entries_max=chance.choice([2, 100]))
    others = [server.session(1000.0) for _ in range(2)]
    checker = Checker(server)
    loop = asyncio.get_running_loop()
    numbers = iter(range(1_000_000))
    end = loop.time() + 40

    async def reader() -> None:
        while loop.time() < end:
            path = chance.choice([*PATHS, PARENT])
            how = chance.choice(["get", "derived", "fresh", "children", "derived_children"])
            kind = "children" if "children" in how else "value"
            begun, floor = loop.time(), checker.floor(path, kind)
            asked = how == "fresh" or cached.state is not SessionState.CONNECTED
            with suppress(*LOST):
                kind_of_answer, answer = await read(cached, path, how)
                checker.check(path, kind_of_answer, answer, begun, floor, asked=asked)
            await asyncio.sleep(chance.random() * 0.05)

    async def writer(store: MetadataStore) -> None:
        while loop.time() < end:
            path = chance.choice(PATHS)
            with suppress(*REFUSED, *LOST):
                await change(store, chance, path, b"%d" % next(numbers))
                if store is cached:
                    checker.demand(path)
            await asyncio.sleep(chance.random() * 0.3)

    async def broker() -> None:
        """Writes by a session of its own, and answers the gateway before its events come."""
        while loop.time() < end:
            with suppress(*REFUSED):
                await change(others[0], chance, PATHS[0], b"%d" % next(numbers))
                forget(cached, NS, TOPIC)
                checker.demand(PATHS[0])
            await asyncio.sleep(chance.random())

    async def nemesis() -> None:
        while loop.time() < end:
            await asyncio.sleep(chance.random() * 8)
            session = below.session_id
            match chance.randrange(3):
                case 0:
                    server.break_connection(session)
                case 1:
                    server.expire(session)
                case _:
                    checker.cut_off_until = float("inf")
                    server.partition(session)
                    await asyncio.sleep(chance.random() * TIMEOUT_S * 1.5)
                    server.heal(session)
                    checker.cut_off_until = loop.time() + TIMEOUT_S

    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(reader())
        for store in (cached, *others):
            group.create_task(writer(store))
        group.create_task(broker())
        group.create_task(nemesis())
    assert checker.checked > 500
    await cached.close()
    for store in others:
        await store.close()

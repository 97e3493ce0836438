"""A bucket in simulated time, which outlives the processes that use it. Requests to it get lost, late, torn, repeated;
answers get lost, are cut short or have other bytes. What it holds stays as it was written."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from engine.offload.bucket import Bucket
from engine.offload.errors import MissingObjectError, ObjectStoreError, StoreTrouble
from engine.offload.object_store import BucketObject, StoredObject
from tests.sim.kit.cluster import EPOCH_MS, Cluster
from tests.sim.kit.loop import SimLoop

TIMEOUT_S = 1.0
LATE_MAX_S = 6.0
"""Longest delay of a request that arrives when its sender does not wait any more."""
KINDS = ("lost", "lost_answer", "torn", "repeated", "short", "changed", "refused", "slow")


def draw_troubles(rng: random.Random) -> dict[str, float]:
    """Draw which requests fail, as shares; in one run of ten, none does."""
    if rng.random() < 0.1:
        return {}
    share = rng.choice((0.3, 0.7))
    return {kind: rng.choice((0.02, 0.1, 0.2)) for kind in KINDS if rng.random() < share}


class ObjectWorld:
    """The bucket; ``objects``: the bytes, attributes and time of each object."""

    def __init__(self, cluster: Cluster, troubles: dict[str, float]) -> None:
        self.cluster = cluster
        self.loop: SimLoop = cluster.loop
        self.objects: dict[str, tuple[StoredObject, float]] = {}
        self.troubles = troubles
        self.waiting = 0
        """Requests that will still arrive."""
        self.come_back: set[str] = set()
        """Keys that were put, by a late request, after their deletion."""
        self.on_delete: Callable[[str], None] = lambda key: None
        self._deleted: set[str] = set()
        self._rng = random.Random(f"{self.loop.seed}/bucket")

    def put(self, key: str, data: bytes, attributes: Mapping[str, str]) -> None:
        if key in self._deleted:
            self.come_back.add(key)
        self.objects[key] = StoredObject(data, dict(attributes)), self.loop.now

    def delete(self, key: str) -> None:
        self._deleted.add(key)
        self.on_delete(key)
        self.objects.pop(key, None)

    def heal(self) -> None:
        self.troubles = {}

    def strikes(self, kind: str) -> bool:
        struck = self._rng.random() < self.troubles.get(kind, 0.0)
        if struck:
            self.cluster.count(f"object requests {kind}")
        return struck

    def cut(self, data: bytes) -> bytes:
        """Return a beginning of ``data`` that is not all of it."""
        return data[: self._rng.randrange(len(data))] if data else data

    def changed(self, data: bytes) -> bytes:
        at = self._rng.randrange(len(data)) if data else 0
        return data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :] if data else data

    def later(self, delay_s: float, act: Callable[[], None]) -> None:
        """Call ``act`` in the world, also if the caller's process has ended by then."""
        self.waiting += 1

        def arrive() -> None:
            self.waiting -= 1
            act()

        self.loop.call_later(delay_s, arrive, context=self.cluster._outside)

    async def ask(self, act: Callable[[], Any]) -> Any:
        """Send a request, which calls ``act`` once it arrives, and return its result or raise its error."""
        answer: asyncio.Future[Any] = self.loop.create_future()
        delay_s = self._rng.choice((0.001, 0.01, 0.05))
        slow_s = self._rng.uniform(0.3, LATE_MAX_S) if self.strikes("slow") else 0.0
        lost, unanswered, refused = map(self.strikes, ("lost", "lost_answer", "refused"))

        def arrive() -> None:
            result: Any = None
            error: Exception | None = None
            try:
                if refused:
                    raise ObjectStoreError("the bucket refuses", StoreTrouble.FORBIDDEN)
                result = act()
            except (ObjectStoreError, MissingObjectError) as raised:
                error = raised
            if not unanswered and not answer.done():
                if error is not None:
                    answer.set_exception(error)
                else:
                    answer.set_result(result)

        if not lost:
            self.later(delay_s + slow_s, arrive)
        try:
            async with asyncio.timeout(TIMEOUT_S):
                return await answer
        except TimeoutError:
            raise ObjectStoreError("the bucket did not answer in time", StoreTrouble.SLOW) from None

    def again(self, act: Callable[[], None]) -> None:
        """Let a request arrive a second time, by chance."""
        if self.strikes("repeated"):
            self.later(self._rng.uniform(0.0, LATE_MAX_S), act)


class SimObjects:
    """The bucket as a process uses it; see ``ObjectStore``."""

    keeps_attributes = True

    def __init__(self, world: ObjectWorld) -> None:
        self._world = world

    async def put(
        self, key: str, pieces: AsyncIterator[bytes], attributes: Mapping[str, str]
    ) -> None:
        world = self._world
        data = b"".join([piece async for piece in pieces])

        def store() -> None:
            world.put(key, data, attributes)

        def arrive() -> None:
            if world.strikes("torn"):
                world.put(key, world.cut(data), attributes)
                return
            store()
            world.again(store)

        await world.ask(arrive)
        world.cluster.count("objects put")

    async def get(self, key: str) -> StoredObject:
        stored = await self._world.ask(lambda: self._object(key))
        return StoredObject(self._answer(stored.data), stored.attributes)

    async def get_ranges(self, key: str, bounds: Sequence[int]) -> list[bytes]:
        start, stop = bounds[0], bounds[-1]
        data = self._answer(await self._world.ask(lambda: self._object(key).data[start:stop]))
        return [data[low - start : high - start] for low, high in pairwise(bounds)]

    async def attributes(self, key: str) -> Mapping[str, str]:
        stored: StoredObject = await self._world.ask(lambda: self._object(key))
        return stored.attributes

    async def delete(self, keys: Sequence[str]) -> None:
        world = self._world

        def remove() -> None:
            for key in keys:
                world.delete(key)

        def arrive() -> None:
            remove()
            world.again(remove)

        await world.ask(arrive)
        world.cluster.count("objects deleted", len(keys))

    async def listed(self, prefix: str = "") -> AsyncIterator[BucketObject]:
        def rows() -> list[BucketObject]:
            return [
                BucketObject(key, len(stored.data), EPOCH_MS + round(at * 1000))
                for key, (stored, at) in sorted(self._world.objects.items())
                if key.startswith(prefix)
            ]

        for row in await self._world.ask(rows):
            yield row

    def _object(self, key: str) -> StoredObject:
        if key not in self._world.objects:
            raise MissingObjectError(f"there is no object {key}")
        return self._world.objects[key][0]

    def _answer(self, data: bytes) -> bytes:
        if self._world.strikes("short"):
            return self._world.cut(data)
        return self._world.changed(data) if self._world.strikes("changed") else data


class SimStores:
    """The one bucket, under every name."""

    def __init__(self, world: ObjectWorld) -> None:
        self._store = SimObjects(world)

    def open(self, bucket: Bucket) -> SimObjects:
        return self._store

"""Division of a resource group's rates among brokers, by the use that each reports in the metadata store.

A broker that serves topics of a group keeps an ephemeral node below ``/loadbalance/resource-group-usage/<group>`` with
its rate of the last second and whether a client had to wait. All brokers compute the same shares from these nodes. The
shares add up to the group's rate: what a broker does not need is left to those that wait (``fair_shares``).
"""

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple

from engine.base.clock import Clock
from engine.base.log import bound
from engine.base.tasks import TaskScope, restarting
from engine.broker.policies import (
    NO_LIMIT,
    MaxRate,
)
from engine.broker.topics.rates import GroupRates, Groups
from engine.metadata import paths
from engine.metadata.records import decode_json, encode_json
from engine.metadata.store import (
    BadVersionError,
    MetadataStore,
    NodeExistsError,
    NoNodeError,
    SessionExpiredError,
    StoreUnavailableError,
)
from engine.tenancy.resources.resource_groups import RATES

INTERVAL_S = 1.0
ROOM = 1.25
"""Factor between the use and the need of a broker that does not wait, so that its use can grow."""
FLOOR = 0.1
"""Part of an equal share that is added to that need, so that an idle broker can begin."""
SAME = 0.1
"""Step in which a use is reported, as a part of the group's rate: nearly equal uses are not stored again."""
DIRECTIONS = ("publish", "dispatch")
WAITING = float("inf")


class Usage(NamedTuple):
    """Messages and bytes a second of one broker in one direction. ``waits``: a client had to wait for the rate."""

    messages: float = 0.0
    size: float = 0.0
    waits: bool = False


def fair_shares(total: float, needs: Mapping[str, float]) -> dict[str, float]:
    """Divide ``total`` by the needs of brokers. Pure.

    Each broker gets what it needs or at least an equal share. What no broker needs is divided evenly.
    """
    shares: dict[str, float] = {}
    # The least need first: what a broker leaves of its equal share raises the shares of those that need more.
    left, brokers = total, sorted(needs, key=lambda broker: (needs[broker], broker))
    for served, broker in enumerate(brokers):
        shares[broker] = min(needs[broker], left / (len(brokers) - served))
        left -= shares[broker]
    return {broker: share + left / len(brokers) for broker, share in shares.items()}


def share(limit: int, used: Mapping[str, tuple[float, bool]], own: str) -> int:
    """Return the share of the broker ``own`` in ``limit`` (0 is no limit). Pure.

    ``used`` has the use of each broker and whether it waited.
    """
    if limit <= 0:
        return 0
    floor = FLOOR * limit / len(used)
    needs = {
        broker: WAITING if waits else use * ROOM + floor for broker, (use, waits) in used.items()
    }
    return max(int(fair_shares(limit, needs)[own]), 1)


class _Report(NamedTuple):
    """Last report of this broker on a group, with the counts of its limits at that time."""

    usage: Mapping[str, Usage]
    counted: Mapping[str, tuple[tuple[int, int], int]]
    at_s: float
    stored: bytes


class GroupShares:
    """The shares of one broker in its resource groups.

    ``start`` is called once, inside the running loop. While the store does not answer the shares stay unchanged.
    """

    def __init__(self, store: MetadataStore, groups: Groups, broker_id: str, clock: Clock) -> None:
        self._store = store
        self._groups = groups
        self._broker_id = broker_id
        self._clock = clock
        self._reports: dict[str, _Report] = {}
        self._new = asyncio.Event()
        self._tasks = TaskScope("resource groups")
        self._log = bound(__name__, broker=broker_id)
        groups.on_new = self._new.set

    def start(self) -> None:
        self._tasks.spawn("share", restarting("sharing of resource groups", self._share_forever))

    async def close(self) -> None:
        await self._tasks.close()

    async def _share_forever(self) -> None:
        while True:
            await self._new.wait()
            if not self._groups.by_name:
                self._new.clear()
                continue
            for name, group in list(self._groups.by_name.items()):
                try:
                    await self._share(name, group)
                except (StoreUnavailableError, SessionExpiredError, ValueError) as error:
                    self._log.info("resource group not shared now group=%s why=%s", name, error)
                except Exception:
                    self._log.exception("resource group not shared group=%s", name)
            await asyncio.sleep(INTERVAL_S)

    async def _share(self, name: str, group: GroupRates) -> None:
        limits = await self._limits(name)
        if not group.hosts or not any(limits.values()):
            group.set(NO_LIMIT, NO_LIMIT)
            await self._withdraw(name)
            if not group.hosts:
                del self._groups.by_name[name]
            return
        own = self._measure(name, group, limits)
        await self._publish_usage(name, own)
        brokers = {self._broker_id: own, **await self._others(name)}
        rates = []
        for direction in DIRECTIONS:
            used = {broker: usage[direction] for broker, usage in brokers.items()}
            rates.append(
                MaxRate(
                    share(
                        limits[f"{direction}RateInMsgs"],
                        {broker: (usage.messages, usage.waits) for broker, usage in used.items()},
                        self._broker_id,
                    ),
                    share(
                        limits[f"{direction}RateInBytes"],
                        {broker: (usage.size, usage.waits) for broker, usage in used.items()},
                        self._broker_id,
                    ),
                )
            )
        group.set(*(rate if rate != MaxRate() else NO_LIMIT for rate in rates))

    async def _limits(self, name: str) -> dict[str, int]:
        """Return the group's rates, 0 for no limit; all are 0 when the group does not exist."""
        try:
            value, _ = await self._store.get(paths.resource_group(name))
        except NoNodeError:
            return dict.fromkeys(RATES, 0)
        stored = decode_json(value, f"resource group {name}")
        return {key: max(int(stored.get(key) or 0), 0) for key in RATES}

    def _measure(self, name: str, group: GroupRates, limits: Mapping[str, int]) -> dict[str, Usage]:
        """Return and remember the use since the last measurement, in the steps of a report; zero the first time."""
        now_s = self._clock.monotonic_s()
        counted = {
            direction: (limit.passed, limit.waits)
            for direction, limit in zip(
                DIRECTIONS, (group.published, group.dispatched), strict=True
            )
        }
        before = self._reports.get(name)
        usage = dict.fromkeys(DIRECTIONS, Usage())
        if before is not None and now_s > before.at_s:
            elapsed_s = now_s - before.at_s
            for direction in DIRECTIONS:
                (messages, size), waits = counted[direction]
                (old_messages, old_size), old_waits = before.counted[direction]
                usage[direction] = Usage(
                    _rounded(
                        (messages - old_messages) / elapsed_s, limits[f"{direction}RateInMsgs"]
                    ),
                    _rounded((size - old_size) / elapsed_s, limits[f"{direction}RateInBytes"]),
                    waits > old_waits,
                )
        stored = b"" if before is None else before.stored
        self._reports[name] = _Report(usage, counted, now_s, stored)
        return usage

    async def _publish_usage(self, name: str, own: Mapping[str, Usage]) -> None:
        """Store the use ``own`` for other brokers to read, unless the same value is stored already."""
        report = self._reports[name]
        value = encode_json({direction: list(usage) for direction, usage in own.items()})
        path = paths.group_usage(name, self._broker_id)
        if value == report.stored and await self._store.exists(path) is not None:
            return
        try:
            await self._store.create(path, value, ephemeral=True, make_parents=True)
        except NodeExistsError:
            try:
                _, stat = await self._store.get(path)
                # A node of an earlier session ends with that session: delete it, and create it with the next report.
                if stat.ephemeral_owner != self._store.session_id:
                    await self._store.delete(path, stat.version)
                    return
                await self._store.put(path, value, stat.version)
            except (NoNodeError, BadVersionError):
                return
        self._reports[name] = report._replace(stored=value)

    async def _others(self, name: str) -> dict[str, dict[str, Usage]]:
        parent = f"{paths.GROUP_USAGE}/{name}"
        usages: dict[str, dict[str, Usage]] = {}
        for broker in await self._store.children(parent):
            if broker != self._broker_id:
                try:
                    value, _ = await self._store.get(paths.group_usage(name, broker))
                except NoNodeError:
                    continue
                usages[broker] = _usage(decode_json(value, f"use of {name}"))
        return usages

    async def _withdraw(self, name: str) -> None:
        if self._reports.pop(name, None) is not None:
            try:
                await self._store.delete(paths.group_usage(name, self._broker_id))
            except NoNodeError:
                return


def _rounded(use: float, limit: int) -> float:
    """Return ``use`` rounded up to a step of ``SAME`` of the limit; 0 without a limit."""
    step = SAME * limit
    return -(-use // step) * step if step else 0.0


def _usage(stored: Mapping[str, Any]) -> dict[str, Usage]:
    """Decode a broker's report. Raises ValueError."""
    try:
        return {
            direction: Usage(
                float(stored[direction][0]), float(stored[direction][1]), bool(stored[direction][2])
            )
            for direction in DIRECTIONS
        }
    except (KeyError, IndexError, TypeError) as error:
        raise ValueError(f"use of a resource group: {error!r}") from error

"""How brokers share the rates of a resource group: each tells in the metadata store what it uses, and takes its share.

A broker that serves topics of a group keeps an ephemeral node below ``/loadbalance/resource-group-usage/<group>`` with
what passed in a second and whether somebody had to wait. From the same nodes all reckon the same shares, which
add up to the group's rate: who does not need its part leaves it to those who wait (``fair_shares``).
"""

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple

from engine.base.clock import Clock
from engine.base.log import bound
from engine.base.tasks import TaskScope, restarting
from engine.broker.ports import NO_LIMIT, MaxRate
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
"""Who does not wait gets so much more than it used, so that it can grow."""
FLOOR = 0.1
"""And at least this part of what each had if all had the same."""
SAME = 0.1
"""A use is told in steps of this part of the group's rate: what is nearly the same is not stored again."""
DIRECTIONS = ("publish", "dispatch")
WAITING = float("inf")


class Usage(NamedTuple):
    """Of one broker in one direction: messages and bytes a second. ``waits``: somebody had to."""

    messages: float = 0.0
    size: float = 0.0
    waits: bool = False


def fair_shares(total: float, needs: Mapping[str, float]) -> dict[str, float]:
    """``total`` among those who need so much: nobody gets less than the same for all but who needs less; what nobody
    needs is divided evenly. Pure."""
    shares: dict[str, float] = {}
    left, rest = total, sorted(needs, key=lambda who: (needs[who], who))
    for at, who in enumerate(rest):
        shares[who] = min(needs[who], left / (len(rest) - at))
        left -= shares[who]
    return {who: share + left / len(rest) for who, share in shares.items()}


def share(limit: int, used: Mapping[str, tuple[float, bool]], own: str) -> int:
    """What ``own`` may pass of ``limit``, by what each used and whether it waited; 0 is no limit. Pure."""
    if limit <= 0:
        return 0
    floor = FLOOR * limit / len(used)
    needs = {who: WAITING if waits else use * ROOM + floor for who, (use, waits) in used.items()}
    return max(int(fair_shares(limit, needs)[own]), 1)


class _Told(NamedTuple):
    """What this broker told of a group, and what its limits had counted then."""

    usage: Mapping[str, Usage]
    counted: Mapping[str, tuple[tuple[int, int], int]]
    at_s: float
    stored: bytes


class GroupShares:
    """Of one broker. ``start`` once, inside the running loop. While the store is silent shares stay as they are."""

    def __init__(self, store: MetadataStore, groups: Groups, broker_id: str, clock: Clock) -> None:
        self._store = store
        self._groups = groups
        self._broker_id = broker_id
        self._clock = clock
        self._told: dict[str, _Told] = {}
        self._new = asyncio.Event()
        self._tasks = TaskScope("resource groups")
        self._log = bound(__name__, broker=broker_id)
        groups.on_new = self._new.set

    def start(self) -> None:
        self._tasks.spawn("share", restarting("sharing of resource groups", self._share_on))

    async def close(self) -> None:
        await self._tasks.close()

    async def _share_on(self) -> None:
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
        own = self._measured(name, group, limits)
        await self._tell(name, own)
        brokers = {self._broker_id: own, **await self._others(name)}
        rates = []
        for way in DIRECTIONS:
            used = {who: usage[way] for who, usage in brokers.items()}
            rates.append(
                MaxRate(
                    share(
                        limits[f"{way}RateInMsgs"],
                        {who: (one.messages, one.waits) for who, one in used.items()},
                        self._broker_id,
                    ),
                    share(
                        limits[f"{way}RateInBytes"],
                        {who: (one.size, one.waits) for who, one in used.items()},
                        self._broker_id,
                    ),
                )
            )
        group.set(*(rate if rate != MaxRate() else NO_LIMIT for rate in rates))

    async def _limits(self, name: str) -> dict[str, int]:
        """The group's rates, 0 for none; none at all of a group that does not exist."""
        try:
            value, _ = await self._store.get(paths.resource_group(name))
        except NoNodeError:
            return dict.fromkeys(RATES, 0)
        stored = decode_json(value, f"resource group {name}")
        return {key: max(int(stored.get(key) or 0), 0) for key in RATES}

    def _measured(
        self, name: str, group: GroupRates, limits: Mapping[str, int]
    ) -> dict[str, Usage]:
        """What passed since it was measured last, as it is told; nothing the first time."""
        now_s = self._clock.monotonic_s()
        counted = {
            way: (limit.passed, limit.waits)
            for way, limit in zip(DIRECTIONS, (group.published, group.dispatched), strict=True)
        }
        before = self._told.get(name)
        usage = dict.fromkeys(DIRECTIONS, Usage())
        if before is not None and now_s > before.at_s:
            elapsed_s = now_s - before.at_s
            for way in DIRECTIONS:
                (messages, size), waits = counted[way]
                (old_messages, old_size), old_waits = before.counted[way]
                usage[way] = Usage(
                    _rounded((messages - old_messages) / elapsed_s, limits[f"{way}RateInMsgs"]),
                    _rounded((size - old_size) / elapsed_s, limits[f"{way}RateInBytes"]),
                    waits > old_waits,
                )
        stored = b"" if before is None else before.stored
        self._told[name] = _Told(usage, counted, now_s, stored)
        return usage

    async def _tell(self, name: str, own: Mapping[str, Usage]) -> None:
        """Others see it; what is the same is not stored again."""
        told = self._told[name]
        value = encode_json({way: list(one) for way, one in own.items()})
        path = paths.group_usage(name, self._broker_id)
        if value == told.stored and await self._store.exists(path) is not None:
            return
        try:
            await self._store.create(path, value, ephemeral=True, make_parents=True)
        except NodeExistsError:
            try:
                _, stat = await self._store.get(path)
                if stat.ephemeral_owner != self._store.session_id:
                    await self._store.delete(path, stat.version)  # of an earlier life: next time
                    return
                await self._store.put(path, value, stat.version)
            except (NoNodeError, BadVersionError):
                return
        self._told[name] = told._replace(stored=value)

    async def _others(self, name: str) -> dict[str, dict[str, Usage]]:
        parent = f"{paths.GROUP_USAGE}/{name}"
        found: dict[str, dict[str, Usage]] = {}
        for broker in await self._store.children(parent):
            if broker != self._broker_id:
                try:
                    value, _ = await self._store.get(paths.group_usage(name, broker))
                except NoNodeError:
                    continue
                found[broker] = _usage(decode_json(value, f"use of {name}"))
        return found

    async def _withdraw(self, name: str) -> None:
        if self._told.pop(name, None) is not None:
            try:
                await self._store.delete(paths.group_usage(name, self._broker_id))
            except NoNodeError:
                return


def _rounded(use: float, limit: int) -> float:
    """Up to a step of ``SAME`` of the limit, so that what is nearly the same is equal; 0 without a limit."""
    step = SAME * limit
    return -(-use // step) * step if step else 0.0


def _usage(stored: Mapping[str, Any]) -> dict[str, Usage]:
    """Raises ValueError."""
    try:
        return {
            way: Usage(float(stored[way][0]), float(stored[way][1]), bool(stored[way][2]))
            for way in DIRECTIONS
        }
    except (KeyError, IndexError, TypeError) as error:
        raise ValueError(f"use of a resource group: {error!r}") from error

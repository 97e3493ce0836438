"""The choice of an ensemble's bookies by racks, load and failures, and the settings that name the policy."""

import asyncio
import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.entropy import RandomEntropy
from engine.base.errors import MisuseError
from engine.ledger.cluster.health import BookieHealth
from engine.ledger.cluster.placement import (
    POLICIES,
    Candidates,
    Placement,
    RackAwarePlacement,
    SpreadPlacement,
    policy,
)
from engine.ledger.errors import NotEnoughBookiesError
from engine.ledger.ledger_metadata import LedgerState
from engine.ledger.quorum import holds
from engine.ledger.settings import POLICY_NAMES, LedgerSettings
from engine.metadata import paths
from engine.metadata.records import BookieRacks, RecordFormatError
from engine.wire import bookie_commands as wire
from tests.support.ledger_cluster import Listener, run_of
from tests.support.scripted_bookies import World, numbered, refusing

pytestmark = pytest.mark.virtual_time

SIX = ("a1", "a2", "b1", "b2", "c1", "c2")
RACKS = {bookie: f"/{bookie[0]}" for bookie in SIX}


def made(name: str, **settings: object) -> Placement:
    entropy = RandomEntropy(random.Random(7))
    return policy(entropy, LedgerSettings(ensemble_placement_policy=name, **settings))  # type: ignore[arg-type]


class OnlyFirst(SpreadPlacement):
    """An operator's own policy."""

    def ensemble(self, size: int, write_quorum: int, candidates: Candidates) -> list[str]:
        return sorted(candidates.writable)[:size]


@pytest.mark.parametrize(("size", "quorum"), [(3, 3), (3, 2), (5, 3), (6, 3)])
def test_copies_of_an_entry_lie_on_different_racks(size: int, quorum: int) -> None:
    placement = made("rack-aware")
    for _ in range(50):
        members = placement.ensemble(size, quorum, Candidates(SIX, racks=RACKS))
        assert len(set(members)) == size
        for entry in range(size):
            racks = {RACKS[b] for p, b in enumerate(members) if holds(p, entry, size, quorum)}
            assert len(racks) >= 2
            assert quorum > 3 or size > 3 or len(racks) == quorum


def test_one_rack_suffices_unless_racks_are_enforced() -> None:
    one_rack = Candidates(("a1", "a2", "a3"))
    assert sorted(made("rack-aware").ensemble(3, 2, one_rack)) == ["a1", "a2", "a3"]
    strict = made("rack-aware", enforce_min_racks_per_write_quorum=True)
    with pytest.raises(NotEnoughBookiesError, match="racks"):
        strict.ensemble(3, 2, one_rack)
    members = strict.ensemble(3, 2, Candidates(SIX, racks=RACKS))
    assert strict.replacements([0], members, 2, Candidates(SIX, racks=RACKS))


def test_a_replacement_keeps_the_racks_apart() -> None:
    placement = made("rack-aware")
    candidates = Candidates(SIX, suspect=("c1",), racks=RACKS)
    for _ in range(20):
        assert placement.replacements([2], ["a1", "b1", "c1"], 3, candidates) == {2: "c2"}


def test_enforced_racks_leave_a_position_empty_without_a_suitable_bookie() -> None:
    strict = made("rack-aware", enforce_min_racks_per_write_quorum=True)
    candidates = Candidates(("a1", "a2", "a3"), racks={**RACKS, "a3": "/a"})
    assert strict.replacements([1], ["a1", "b1"], 2, candidates) == {}


@pytest.mark.parametrize("name", list(POLICIES))
def test_failed_bookies_are_chosen_last_and_never_as_replacements(name: str) -> None:
    placement = made(name)
    candidates = Candidates(SIX, suspect=("a1",), quarantined=("b1",), racks=RACKS)
    for _ in range(20):
        assert not {"a1", "b1"} & set(placement.ensemble(4, 2, candidates))
        assert "a1" not in placement.ensemble(5, 2, candidates)
        assert sorted(placement.ensemble(6, 2, candidates)) == sorted(SIX)
        members = ["a2", "b2", "c1", "c2"]
        both = replace(candidates, suspect=("a1", "a2"))
        assert placement.replacements([0], members, 2, both) == {0: "b1"}
        replacements = placement.replacements([0, 1, 2], members, 2, candidates)
        assert "a1" not in replacements.values()
        assert not {"c2"} & set(replacements.values())
    with pytest.raises(NotEnoughBookiesError):
        placement.ensemble(7, 2, candidates)


@pytest.mark.parametrize("name", list(POLICIES))
def test_ledgers_spread_by_load(name: str) -> None:
    placement = made(name)
    load: Counter[str] = Counter()
    for _ in range(60):
        for bookie in placement.ensemble(3, 3, Candidates(SIX, load=load, racks=RACKS)):
            load[bookie] += 1
    assert set(load.values()) == {30}


@given(
    st.integers(1, 6).flatmap(lambda e: st.tuples(st.just(e), st.integers(1, e))),
    st.lists(st.sampled_from(SIX), unique=True),
    st.dictionaries(st.sampled_from(SIX), st.sampled_from(["/x", "/y"])),
    st.sampled_from(list(POLICIES)),
)
def test_members_are_distinct_and_writable_whichever_bookies_failed(
    shape: tuple[int, int], failed: list[str], racks: dict[str, str], name: str
) -> None:
    placement = made(name)
    candidates = Candidates(SIX, suspect=failed[::2], quarantined=failed[1::2], racks=racks)
    members = placement.ensemble(*shape, candidates)
    assert len(set(members)) == shape[0]
    replacements = placement.replacements([0], members, shape[1], candidates)
    assert not set(replacements.values()) & (set(members[1:]) | set(candidates.suspect))


def test_placement_policies_are_named_in_settings() -> None:
    assert isinstance(made("rack-aware"), RackAwarePlacement)
    for name in ("nosuch", "engine.ledger.cluster.placement:NoSuch", "no.such.module:X"):
        with pytest.raises(MisuseError, match="ensemble_placement_policy"):
            made(name)
    own = made(f"{__name__}:OnlyFirst")
    assert own.ensemble(2, 2, Candidates(SIX)) == ["a1", "a2"]


def test_names_of_placement_policies_are_checked_with_the_settings() -> None:
    assert tuple(POLICIES) == POLICY_NAMES
    with pytest.raises(MisuseError, match="rack-aware, spread or module:Class, not 'rackaware'"):
        LedgerSettings(ensemble_placement_policy="rackaware")


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"bookie_auth_plugin": "org.example.X"}, "client_authentication_plugin must be empty"),
        ({"bookie_tls_provider": "org.example.X"}, "provider_factory_class must be org.apache"),
        ({"bookkeeper_tls_client_authentication": True}, "key_file_path must name files"),
    ],
)
def test_a_policy_that_is_missing_or_incomplete_is_refused_by_name(
    settings: dict[str, Any], reason: str
) -> None:
    with pytest.raises(MisuseError, match=reason):
        LedgerSettings(**settings)


def test_bookies_that_fail_often_are_quarantined() -> None:
    settings = LedgerSettings(
        suspect_s=10, health_check_interval_s=60, bookie_errors_per_interval=3, quarantine_s=1800
    )
    health = BookieHealth(settings)
    assert [health.failed("b", now) for now in (0.0, 30.0, 70.0, 80.0)] == [False] * 4
    assert health.suspects(89.0) == ["b"]
    assert health.suspects(91.0) == []
    assert health.failed("b", 90.0)  # the third since 70
    assert not health.failed("b", 90.5)  # the same failure, reported by another ledger
    health.registered("b")
    assert health.suspects(90.0) == []
    assert health.quarantined(90.0 + 1799) == ["b"]
    assert health.quarantined(90.0 + 1801) == []


def test_operators_turn_the_quarantine_off() -> None:
    health = BookieHealth(LedgerSettings(bookie_errors_per_interval=1))
    health.quarantine_off = True
    assert not health.failed("b", 0.0)
    assert health.quarantined(0.0) == []
    assert health.read_rank("b", 11.0) == 0


def test_the_rack_map_has_pulsars_format() -> None:
    stored = b'{"g1":{"127.0.0.1:18282":{"rack":"/r1","hostname":"h1"}},"g2":{"x":{"rack":"r2"}}}'
    assert BookieRacks.decode(stored).racks == {"127.0.0.1:18282": "/r1", "x": "/r2"}
    assert BookieRacks.decode(b"{}").racks == {}
    assert BookieRacks.decode(stored).encode() == stored
    for bad in (b"[]", b"{", b'{"g":1}', b'{"g":{"b":"/r"}}', b'{"g":{"b":{"rack":1}}}'):
        with pytest.raises(RecordFormatError):
            BookieRacks.decode(bad)


async def test_ledgers_of_a_cluster_follow_its_rack_map(world: World) -> None:
    await world.start(4)
    racks = BookieRacks(
        {"g": {name: {"rack": f"/{i // 2}"} for i, name in enumerate(world.bookies)}}
    )
    await world.store.create(paths.BOOKIE_RACKS, racks.encode(), make_parents=True)
    client = world.client()
    for _ in range(10):
        writer = await client.create(2, 2, 2, listener=Listener())
        assert len({racks.racks[b] for b in writer.metadata.segments[0].bookies}) == 2


async def test_operators_turn_the_quarantine_off_while_it_runs(world: World) -> None:
    await world.start(1)
    client = world.client(bookie_errors_per_interval=1)
    await client.create(1, 1, 1, listener=Listener())
    client.bookies.choice.failed("b0")
    now = asyncio.get_running_loop().time()
    assert client.bookies.choice.health.quarantined(now) == ["b0"]
    loaded = asyncio.Event()
    client.bookies.registrations.on_change(loaded.set)
    await world.store.create(paths.DISABLE_HEALTH_CHECK, make_parents=True)
    while not client.bookies.choice.health.quarantine_off:
        await loaded.wait()
        loaded.clear()
    assert client.bookies.choice.health.quarantined(now) == []


async def test_read_only_bookies_are_never_chosen(world: World) -> None:
    await world.start(4)
    await world.make_read_only("b0")
    client = world.client()
    for _ in range(5):
        writer = await client.create(3, 3, 3, listener=Listener())
        assert "b0" not in writer.metadata.segments[0].bookies
    with pytest.raises(NotEnoughBookiesError):
        await client.create(4, 2, 2, listener=Listener())


async def test_a_delayed_ensemble_change_waits_until_an_ack_quorum_is_broken(world: World) -> None:
    await world.start(5)
    listener = Listener()
    writer = await world.client(delay_ensemble_change=True).create(3, 3, 2, listener=listener)
    first, second = writer.metadata.segments[0].bookies[:2]
    world.bookies[first].answer = refusing(wire.EIO)
    writer.append(run_of(*numbered(3)))
    await listener.reach(3)
    assert len(writer.metadata.segments) == 1
    assert first in writer.metadata.segments[0].bookies
    world.bookies[second].answer = refusing(wire.EIO)
    writer.append(run_of(*numbered(3)))
    await listener.reach(6)
    assert not {first, second} & set(writer.metadata.segments[-1].bookies)
    await writer.close()
    assert writer.metadata.state is LedgerState.CLOSED

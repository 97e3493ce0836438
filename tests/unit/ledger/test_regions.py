"""Placement and confirmation by regions: what is confirmed is in enough of them, whichever bookies fail (I41)."""

import asyncio
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.entropy import RandomEntropy
from engine.ledger.cluster.placement import Candidates, RackAwarePlacement, policy, region_of
from engine.ledger.errors import NotEnoughBookiesError
from engine.ledger.quorum import AckTracker, holds, write_set
from engine.ledger.settings import LedgerSettings
from engine.metadata import paths
from engine.metadata.records import BookieRacks
from engine.wire import bookie_commands as wire
from tests.support.ledger_cluster import Listener, run_of
from tests.support.scripted_bookies import World, numbered, refusing, silent

pytestmark = pytest.mark.virtual_time

RACKS = {f"{region}{i}": f"/{region}/rack-{i}" for region in "abc" for i in range(3)}
NINE = tuple(RACKS)
SHAPES = [(2, 2, 2), (3, 3, 2), (4, 4, 3), (3, 2, 2), (5, 3, 2), (6, 4, 3)]


def made(**settings: Any) -> Any:
    entropy = RandomEntropy(random.Random(7))
    return policy(entropy, LedgerSettings(region_aware=True, **settings))


def regions_per_write_set(members: list[str], quorum: int) -> list[int]:
    size = len(members)
    return [len({members[p][0] for p in write_set(e, size, quorum)}) for e in range(size)]


@pytest.mark.parametrize(
    ("rack", "region"), [("/us/r1", "us"), ("us/r1", "us"), ("/us", "us"), ("/", "")]
)
def test_a_region_is_the_first_part_of_a_rack(rack: str, region: str) -> None:
    assert region_of(rack) == region


def test_regions_count_only_where_the_setting_says_so() -> None:
    assert isinstance(policy(RandomEntropy(), LedgerSettings()), RackAwarePlacement)


@given(
    st.sampled_from(SHAPES),
    st.lists(st.sampled_from(NINE), unique=True, max_size=4),
    st.integers(1, 3),
)
def test_every_write_set_touches_enough_regions_or_the_ensemble_is_refused(
    shape: tuple[int, int, int], failed: list[str], regions_min: int
) -> None:
    size, quorum, _ = shape
    candidates = Candidates(NINE, suspect=failed[::2], quarantined=failed[1::2], racks=RACKS)
    try:
        members = made(regions_min=regions_min).ensemble(size, quorum, candidates)
    except NotEnoughBookiesError:
        # Three bookies in each of three regions suffice, but where neighbours of a stripe need all three.
        assert quorum < regions_min or (size > quorum and regions_min == 3)
        return
    assert len(set(members)) == size
    assert min(regions_per_write_set(members, quorum)) >= regions_min


@given(st.sampled_from(SHAPES), st.lists(st.sampled_from(NINE), unique=True), st.data())
def test_i41_replacements_keep_enough_regions_in_every_write_set(
    shape: tuple[int, int, int], gone: list[str], data: st.DataObject
) -> None:
    size, quorum, _ = shape
    placement = made()
    members = placement.ensemble(size, quorum, Candidates(NINE, racks=RACKS))
    failed = [p for p, bookie in enumerate(members) if bookie in gone]
    writable = [bookie for bookie in NINE if bookie not in gone]
    suspect = data.draw(st.lists(st.sampled_from(NINE), unique=True))
    candidates = Candidates(writable, suspect=suspect, racks=RACKS)
    chosen = placement.replacements(failed, members, quorum, candidates)
    assert set(chosen) <= set(failed)
    assert set(chosen.values()) <= set(writable) - set(suspect)
    changed = [chosen.get(p, bookie) for p, bookie in enumerate(members)]
    assert len(set(changed)) == size
    assert min(regions_per_write_set(changed, quorum)) >= 2


@given(st.sampled_from("abc"))
def test_a_lost_region_is_replaced_by_the_others(lost: str) -> None:
    placement = made()
    members = placement.ensemble(3, 3, Candidates(NINE, racks=RACKS))
    left = [bookie for bookie in NINE if bookie[0] != lost]
    failed = [p for p, bookie in enumerate(members) if bookie[0] == lost]
    chosen = placement.replacements(failed, members, 3, Candidates(left, racks=RACKS))
    assert list(chosen) == failed


def test_too_few_regions_are_named() -> None:
    of_one_region = Candidates([bookie for bookie in NINE if bookie[0] == "a"], racks=RACKS)
    with pytest.raises(NotEnoughBookiesError, match=r"2 regions in every write set of 3.* in a$"):
        made().ensemble(3, 3, of_one_region)
    assert made(regions_min=1).ensemble(3, 3, of_one_region)
    unset = Candidates(NINE)
    with pytest.raises(NotEnoughBookiesError, match=r"in default-region$"):
        made().ensemble(3, 3, unset)


def test_ledgers_are_written_to_the_named_regions_alone() -> None:
    placement = made(regions_to_write="a; c")
    candidates = Candidates(NINE, racks=RACKS)
    members = placement.ensemble(4, 3, candidates)
    assert {bookie[0] for bookie in members} == {"a", "c"}
    assert {b[0] for b in placement.replacements([0], members, 3, candidates).values()} <= {*"ac"}
    with pytest.raises(NotEnoughBookiesError, match=r"in the regions a, c, there are 6"):
        placement.ensemble(7, 3, candidates)


def test_bookies_that_failed_are_chosen_only_for_their_region() -> None:
    candidates = Candidates(
        NINE, suspect=[bookie for bookie in NINE if bookie[0] in "bc"], racks=RACKS
    )
    members = made().ensemble(3, 3, candidates)
    assert {bookie[0] for bookie in members} == {*"abc"}


def test_a_region_in_quarantine_is_used_where_it_would_have_no_copy_otherwise() -> None:
    returned = [bookie for bookie in NINE if bookie[0] == "c"]
    candidates = Candidates(NINE, quarantined=returned, racks=RACKS)
    for size, quorum in [(3, 3), (4, 4), (3, 2), (5, 3)]:
        members = made().ensemble(size, quorum, candidates)
        assert {bookie[0] for bookie in members} == {*"abc"}
    # With neither more regions nor fewer, bookies that did not fail are preferred.
    candidates = Candidates(NINE, quarantined=["c0", "c1"], racks=RACKS)
    for _ in range(20):
        assert not {"c0", "c1"} & set(made().ensemble(4, 4, candidates))
    chosen = made().replacements(
        [2], ["a0", "b0", "c2"], 3, Candidates(NINE, quarantined=returned, racks=RACKS)
    )
    assert chosen[2][0] == "c"


def test_a_suspect_region_is_left_out_while_the_others_are_enough() -> None:
    away = [bookie for bookie in NINE if bookie[0] == "c"]
    members = made().ensemble(4, 4, Candidates(NINE, suspect=away, racks=RACKS))
    assert {bookie[0] for bookie in members} == {*"ab"}


@given(st.sampled_from(SHAPES), st.integers(1, 12), st.integers(1, 3), st.data())
def test_an_entry_is_confirmed_once_enough_bookies_of_enough_regions_have_it(
    shape: tuple[int, int, int], total: int, regions_min: int, data: st.DataObject
) -> None:
    e, w, a = shape
    regions = data.draw(st.lists(st.sampled_from("abc"), min_size=e, max_size=e))
    acks = AckTracker(e, w, a)
    acks.require_regions(regions, regions_min)
    stored = [data.draw(st.integers(0, total)) for _ in range(e)]
    for position, below in enumerate(stored):
        acks.acked(position, 0, below)
    expected = 0
    while expected < total:
        has = [p for p in range(e) if holds(p, expected, e, w) and stored[p] > expected]
        if len(has) < a or len({regions[p] for p in has}) < regions_min:
            break
        expected += 1
    assert acks.confirmed(total) == expected


async def in_regions(world: World) -> None:
    """Start two bookies in each of three regions."""
    await world.start(6)
    facts = {name: {"rack": f"/{'abc'[i // 2]}/r{i}"} for i, name in enumerate(world.bookies)}
    racks = BookieRacks({"g": facts})
    await world.store.create(paths.BOOKIE_RACKS, racks.encode(), make_parents=True)


async def test_i41_an_ack_quorum_in_one_region_confirms_nothing(world: World) -> None:
    await in_regions(world)
    listener = Listener()
    writer = await world.client(region_aware=True).create(4, 4, 2, listener=listener)
    members = writer.metadata.segments[0].bookies
    by_region: dict[str, list[str]] = {}
    for name, region in zip(members, writer._ensemble.regions, strict=True):
        by_region.setdefault(region, []).append(name)
    (pair,) = [names for names in by_region.values() if len(names) == 2]
    for name in set(members) - set(pair):
        world.bookies[name].answer = silent
    writer.append(run_of(*numbered(1)))
    await asyncio.sleep(0.1)
    assert all((writer.ledger_id, 0) in world.bookies[name].entries for name in pair)
    assert writer.last_confirmed == -1


async def test_i41_a_region_that_fails_is_replaced_and_writing_continues(world: World) -> None:
    await in_regions(world)
    listener = Listener()
    writer = await world.client(region_aware=True).create(3, 3, 2, listener=listener)
    writer.append(run_of(*numbered(3)))
    await listener.reach(3)
    for name in list(world.bookies)[:2]:
        world.bookies[name].answer = refusing(wire.EIO)
    writer.append(run_of(*numbered(3)))
    await listener.reach(6)
    while "a" in (regions := writer._ensemble.regions):
        await asyncio.sleep(0.1)
    assert sorted({*regions}) == ["b", "c"]


async def test_i41_a_writer_without_enough_regions_fails(world: World) -> None:
    await in_regions(world)
    listener = Listener()
    writer = await world.client(region_aware=True).create(3, 3, 1, listener=listener)
    for name in list(world.bookies)[:4]:
        world.bookies[name].answer = refusing(wire.EIO)
    writer.append(run_of(*numbered(1)))
    while not listener.errors:
        await asyncio.sleep(0.1)
    assert isinstance(listener.errors[0], NotEnoughBookiesError)
    assert listener.below == 0

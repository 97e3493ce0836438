"""Scenarios that a seed may play, by name."""

import random
from dataclasses import replace

from engine.tenancy.policies.values import WHEN_CAUGHT_UP, WHEN_NO_SUBSCRIPTIONS
from tests.sim.balance.workload import Balancing
from tests.sim.compacting.workload import Compacting
from tests.sim.doors.workload import Doors
from tests.sim.geo.workload import ACTS, Geo
from tests.sim.kit.cluster import REPAIR, Shape
from tests.sim.kit.faults import FAULTS
from tests.sim.kit.nemesis import METADATA_CALLS, draw_faults
from tests.sim.kit.scenario import Draw, Scenario
from tests.sim.ledgers.workload import Ledgers
from tests.sim.managed.workload import ManagedLedgers
from tests.sim.migrating.workload import ACTS as MIGRATING_ACTS
from tests.sim.migrating.workload import Migrating
from tests.sim.moving.workload import Moving
from tests.sim.offloading.workload import Offloading
from tests.sim.passing.workload import Passing
from tests.sim.placing.workload import Placing
from tests.sim.publishing.workload import Publishing
from tests.sim.regions.workload import Regions
from tests.sim.repairing.days import IN_DAYS, Days
from tests.sim.repairing.workload import FAIL_DISK, LOSE_BOOKIE, SWITCH, TAKE_OUT, Repairing
from tests.sim.rights.workload import Rights
from tests.sim.rivals.workload import Rivals
from tests.sim.schemas.workload import Schemas
from tests.sim.sessions.workload import NETWORK_FAULTS, SERVER_FAULTS, MetadataSessions
from tests.sim.topics.away import CONFIGURATION_AWAY, Away
from tests.sim.topics.faults import TOPIC_FAULTS
from tests.sim.topics.workload import Topics
from tests.sim.transfer.workload import TransferPlan
from tests.sim.vacant.workload import Vacant


def topics(rng: random.Random) -> Scenario:
    """Draw brokers, bookies and clients."""
    duration_s = rng.choice((5.0, 10.0, 20.0))
    return Scenario(
        shape=Shape.draw(rng),
        workloads=(Topics.draw(rng, duration_s),),
        faults=draw_faults(rng, (*FAULTS, *TOPIC_FAULTS)),
        duration_s=duration_s,
    )


def keys(rng: random.Random) -> Scenario:
    """Draw ``topics`` with Key_Shared subscriptions whose consumers attach and leave more often."""
    made = topics(rng)
    (crowds,) = made.workloads
    assert isinstance(crowds, Topics)
    sharing = tuple(
        replace(crowd, consumers=("key_shared",) * rng.choice((2, 3, 4))) for crowd in crowds.crowds
    )
    return replace(
        made, workloads=(replace(crowds, crowds=sharing, keys=rng.choice((1, 3, 10, 50))),)
    )


def delays(rng: random.Random) -> Scenario:
    """Draw ``topics`` with mostly delayed messages, more of them than brokers keep in memory."""
    made = topics(rng)
    (crowds,) = made.workloads
    assert isinstance(crowds, Topics)
    kind = rng.choice(("shared", "shared", "key_shared"))
    sharing = tuple(
        replace(crowd, consumers=(kind,) * rng.choice((1, 2))) for crowd in crowds.crowds
    )
    shape = replace(
        made.shape,
        set_aside_max=rng.choice((2, 5, 20)),
        delay_part_max=rng.choice((1, 3, 10)),
        delay_runs_max=rng.choice((2, 2, 4)),
        delay_tick_ms=rng.choice((1, 100, 1000)),
    )
    plan = replace(
        crowds,
        crowds=sharing,
        delayed=rng.choice((0.4, 0.7)),
        reminds=rng.random() < 0.5,
        keys=5 if kind == "key_shared" else 0,
    )
    return replace(made, shape=shape, workloads=(plan,))


def rates(rng: random.Random) -> Scenario:
    """Draw topics with rates of publishing and dispatching, which administrators change."""
    made = topics(rng)
    shape = replace(
        made.shape,
        publish_rate=rng.choice((0, 20, 60)),
        dispatch_rate=rng.choice((0, 100)),
        subscription_rate=rng.choice((0, 60, 100)),
        broker_publish_rate=rng.choice((0, 0, 80)),
    )
    changes = {"change_rates": rng.choice((0.0, 0.3, 1.0))}
    return replace(made, shape=shape, faults={**made.faults, **changes})


def splits(rng: random.Random) -> Scenario:
    """Draw topics of two brokers whose bundles administrators split and unload all the time."""
    made = topics(rng)
    changes = {"split": rng.choice((0.3, 1.0, 3.0))}
    return replace(made, shape=replace(made.shape, brokers=2), faults={**made.faults, **changes})


def transfers(rng: random.Random) -> Scenario:
    """Draw topics of three brokers whose bundles administrators move, and which are stopped or drained one after the
    other."""
    made = topics(rng)
    changes = {
        "transfer": rng.choice((0.5, 2.0, 5.0)),
        "drain": rng.choice((0.0, 0.1, 0.3)),
        "split": rng.choice((0.0, 0.0, 0.5)),
        "evacuate": rng.choice((0.0, 0.2, 0.5)),
        "reinstate": rng.choice((0.0, 0.2)),
    }
    changes = {name: rate for name, rate in changes.items() if rate}
    return replace(made, shape=replace(made.shape, brokers=3), faults={**made.faults, **changes})


def transfer(rng: random.Random) -> Scenario:
    """Draw brokers, bookies, and accounts between which coins are transferred in transactions."""
    made = Scenario(
        shape=Shape.draw(rng),
        workloads=(TransferPlan.draw(rng),),
        faults=draw_faults(rng, (*FAULTS, "unload", "take_over")),
        duration_s=rng.choice((5.0, 10.0, 20.0)),
    )
    shape = replace(
        made.shape,
        transactions=True,
        batched_records=rng.random() < 0.25,
        unacked_consumer=0,
        unacked_subscription=0,
    )
    return replace(made, shape=shape)


def passing(rng: random.Random) -> Scenario:
    """Draw brokers, bookies and clients of a non-persistent topic."""
    return Scenario(
        shape=Shape.draw(rng),
        workloads=(Passing.draw(rng),),
        faults=draw_faults(rng, FAULTS),
        duration_s=rng.choice((5.0, 10.0)),
    )


def publishing(rng: random.Random) -> Scenario:
    """Draw brokers, bookies and producers of the engine's own client; half of the runs with deduplication."""
    made = Scenario(
        shape=Shape.draw(rng),
        workloads=(Publishing.draw(rng),),
        faults=draw_faults(rng, (*FAULTS, "unload", "take_over")),
        duration_s=rng.choice((5.0, 10.0)),
    )
    return replace(made, shape=replace(made.shape, deduplication=rng.choice((False, True))))


def geo(rng: random.Random) -> Scenario:
    """Draw two clusters that send a topic to each other."""
    return Scenario(
        shape=replace(Shape.draw(rng), deduplication=True),
        workloads=(Geo.draw(rng),),
        faults=draw_faults(rng, ACTS),
        duration_s=rng.choice((5.0, 10.0)),
    )


def moving(rng: random.Random) -> Scenario:
    """Draw two or three clusters, and a consumer that moves between them."""
    return Scenario(
        shape=replace(Shape.draw(rng), deduplication=True),
        workloads=(Moving.draw(rng),),
        faults=draw_faults(rng, ACTS),
        duration_s=rng.choice((5.0, 10.0)),
    )


def migrating(rng: random.Random) -> Scenario:
    """Draw a topic that is migrated from one cluster to another."""
    return Scenario(
        shape=replace(Shape.draw(rng), deduplication=rng.choice((False, True))),
        workloads=(Migrating.draw(rng),),
        faults=draw_faults(rng, MIGRATING_ACTS),
        duration_s=rng.choice((15.0, 25.0)),
    )


def rivals(rng: random.Random) -> Scenario:
    """Draw two brokers, bookies and producers with exclusive access to a topic."""
    return Scenario(
        shape=replace(Shape.draw(rng), brokers=2),
        workloads=(Rivals.draw(rng),),
        faults=draw_faults(rng, (*FAULTS, "unload", "take_over")),
        duration_s=rng.choice((5.0, 10.0)),
    )


def placing(rng: random.Random) -> Scenario:
    """Draw brokers, bookies, functions workers and an administrator of functions."""
    shape = Shape.draw(rng)
    return Scenario(
        shape=replace(shape, session_s=max(shape.session_s, 2.0)),
        workloads=(Placing.draw(rng),),
        faults=draw_faults(rng, (*FAULTS, "unload", "take_over")),
        duration_s=rng.choice((10.0, 20.0)),
    )


def rights(rng: random.Random) -> Scenario:
    """Draw brokers that judge rights, which an administrator changes.

    Calls of the metadata service are answered at once or not at all: the time in which a broker acts on a change is
    measured while its store answers.
    """
    faults = draw_faults(
        rng, [name for name in (*FAULTS, "unload", "take_over") if name != "lag_follower"]
    )
    faults.pop(METADATA_CALLS, None)
    return Scenario(
        shape=replace(Shape.draw(rng), rights=True),
        workloads=(Rights.draw(rng),),
        faults=faults,
        duration_s=rng.choice((5.0, 10.0, 20.0)),
    )


def compacting(rng: random.Random) -> Scenario:
    """Draw brokers, bookies, and a topic that is compacted repeatedly and retains little else."""
    shape = Shape.draw(rng)
    return Scenario(
        shape=replace(shape, ledger_entries=rng.choice((5, 20))),
        workloads=(Compacting.draw(rng),),
        faults=draw_faults(rng, (*FAULTS, "unload", "take_over")),
        duration_s=rng.choice((5.0, 10.0)),
    )


def schemas(rng: random.Random) -> Scenario:
    """Draw two brokers, bookies and producers that register schemas."""
    return Scenario(
        shape=replace(Shape.draw(rng), brokers=2),
        workloads=(Schemas.draw(rng),),
        faults=draw_faults(rng, (*FAULTS, "unload", "take_over")),
        duration_s=rng.choice((5.0, 10.0)),
    )


def doors(rng: random.Random) -> Scenario:
    """Draw brokers, bookies and the client that gateways use."""
    return Scenario(
        shape=Shape.draw(rng),
        workloads=(Doors.draw(rng),),
        faults=draw_faults(rng, FAULTS),
        duration_s=rng.choice((5.0, 10.0)),
    )


def vacant(rng: random.Random) -> Scenario:
    """Draw brokers, bookies and short-lived clients of a topic that is deleted while it is unused."""
    made = Scenario(
        shape=Shape.draw(rng),
        workloads=(Vacant.draw(rng),),
        faults=draw_faults(rng, (*FAULTS, "unload", "take_over")),
        duration_s=rng.choice((20.0, 40.0)),
    )
    mode = rng.choice((WHEN_NO_SUBSCRIPTIONS, WHEN_CAUGHT_UP))
    return replace(made, shape=replace(made.shape, inactive=mode))


def apart(rng: random.Random) -> Scenario:
    """Draw ``topics`` whose configuration store is apart and away at times; in half of the runs nothing else fails."""
    made = topics(rng)
    others = made.faults if rng.random() < 0.5 else {}
    away = {CONFIGURATION_AWAY: rng.choice((0.1, 0.3, 0.6))}
    return replace(
        made,
        shape=replace(made.shape, apart=True),
        workloads=(Away.draw(rng), *made.workloads),
        faults={**others, **away},
    )


def light(rng: random.Random) -> Scenario:
    """Draw three bookies at E=3, WQ=3, AQ=2, two brokers, minutes of a few messages and rare faults.

    It is for timers, sessions and slow decay. A simulated second costs a tenth of a busy one.
    """
    seldom = replace(Shape.draw(rng), session_s=10.0, flush_interval_s=3.0, gc_wait_s=15.0)
    faults = draw_faults(rng, (*FAULTS, *TOPIC_FAULTS))
    return Scenario(
        shape=replace(seldom, brokers=2, bookies=3, quorum=(3, 3, 2)),
        workloads=(Topics.draw(rng, 300.0, rates=(0.05, 0.15)),),
        faults={name: rate * 0.02 for name, rate in faults.items()},
        duration_s=300.0,
    )


def regions(rng: random.Random) -> Scenario:
    """Draw six bookies in three regions, of which one at a time is lost once all else is healed."""
    faults = draw_faults(
        rng, ("kill", "stop", "pause", "reset", "slow_link", "unload", "take_over")
    )
    return Scenario(
        shape=replace(
            Shape.draw(rng),
            bookies=6,
            # A region has fewer copies than the ack quorum: otherwise a broker that ends together with it leaves
            # ledgers without a quorum for their recovery.
            quorum=rng.choice(((4, 4, 3), (3, 3, 2))),
            ledger_entries=10,
            regions=True,
        ),
        workloads=(Regions.draw(rng),),
        faults=faults,
        duration_s=rng.choice((2.0, 5.0)),
    )


def ledger(rng: random.Random) -> Scenario:
    """Draw bookies and processes that use ledgers."""
    # Processes exchange ledger ids directly: a metadata server that is behind rightly does not find those ledgers.
    faults = [name for name in FAULTS if name != "lag_follower"]
    return Scenario(
        shape=_bookies(rng),
        workloads=(Ledgers.draw(rng),),
        faults=draw_faults(rng, faults),
        duration_s=rng.choice((5.0, 10.0, 20.0)),
    )


def repair(rng: random.Random) -> Scenario:
    """Draw bookies that are lost for good, one after the other, and auto-recovery in their processes."""
    quorum = rng.choice(((3, 3, 2), (3, 3, 2), (3, 2, 2), (4, 3, 2)))
    left_out = ("lag_follower", "rot", "lose_disk")
    faults = draw_faults(rng, [name for name in FAULTS if name not in left_out])
    if rng.random() < 0.2:
        faults = {}
    return Scenario(
        shape=replace(
            Shape.draw(rng),
            brokers=0,
            bookies=quorum[0] + rng.choice((0, 1, 2)),
            quorum=quorum,
            session_s=rng.choice((2.0, 4.0)),
            repair=REPAIR,
            scrub_s=8.0,
        ),
        workloads=(Repairing.draw(rng),),
        faults={
            **faults,
            LOSE_BOOKIE: rng.choice((0.2, 0.5, 1.0)),
            FAIL_DISK: 0.3,
            TAKE_OUT: rng.choice((0.01, 0.2, 0.5)),
            SWITCH: rng.choice((0.01, 0.1)),
        },
        duration_s=rng.choice((10.0, 20.0, 40.0)),
    )


def days(rng: random.Random) -> Scenario:
    """Draw ten days of little traffic in which bookies and disks are lost at random, and auto-recovery with settings of
    real clusters."""
    day = 86_400.0
    return Scenario(
        shape=replace(
            Shape.draw(rng),
            brokers=0,
            bookies=6,
            quorum=(3, 3, 2),
            session_s=120.0,
            flush_interval_s=60.0,
            gc_wait_s=1800.0,
            repair=IN_DAYS,
            scrub_s=2 * day,
        ),
        workloads=(Days.draw(rng),),
        faults={
            LOSE_BOOKIE: 2 / day,
            FAIL_DISK: 1 / day,
            TAKE_OUT: 0.5 / day,
            "kill": 2 / day,
            "power_loss": 2 / day,
        },
        duration_s=10 * day,
    )


def managed(rng: random.Random) -> Scenario:
    """Draw bookies and processes that use managed ledgers."""
    shape = _bookies(rng)
    return Scenario(
        shape=shape,
        workloads=(ManagedLedgers.draw(rng, shape.quorum),),
        faults=draw_faults(rng, FAULTS),
        duration_s=rng.choice((4.0, 8.0, 15.0)),
    )


def offloading(rng: random.Random) -> Scenario:
    """Draw ``managed`` with a bucket to which ledgers are moved."""
    shape = _bookies(rng)
    return Scenario(
        shape=shape,
        workloads=(Offloading.draw(rng, shape.quorum),),
        faults=draw_faults(rng, FAULTS),
        # Long enough at times for objects to be old.
        duration_s=rng.choice((4.0, 8.0, 15.0, 40.0)),
    )


def metadata(rng: random.Random) -> Scenario:
    """Draw the embedded metadata server and clients of its sessions."""
    return Scenario(
        shape=replace(Shape.draw(rng), brokers=0, bookies=0, quorum=(0, 0, 0)),
        workloads=(MetadataSessions.draw(rng),),
        faults=draw_faults(rng, (*SERVER_FAULTS, *NETWORK_FAULTS)),
        duration_s=rng.choice((5.0, 10.0, 20.0)),
    )


def balance(rng: random.Random) -> Scenario:
    """Draw brokers without topics, in fast motion, between which bundles are balanced."""
    return Scenario(
        shape=replace(Shape.draw(rng), brokers=0, bookies=0, quorum=(0, 0, 0)),
        workloads=(Balancing.draw(rng),),
        faults={},
        duration_s=rng.choice((40.0, 60.0)),
    )


def _bookies(rng: random.Random) -> Shape:
    """Draw machines without brokers: three runs in ten use one bookie or stripe over more than they write to."""
    quorum = rng.choice(((3, 3, 2), (3, 3, 2), (3, 3, 2), (3, 2, 2), (5, 3, 2), (1, 1, 1)))
    spare = rng.choice((0, 1, 2)) if quorum[0] <= 3 else 1
    return replace(
        Shape.draw(rng),
        brokers=0,
        bookies=quorum[0] + spare,
        quorum=quorum,
        session_s=rng.choice((2.0, 4.0)),
    )


SCENARIOS: dict[str, Draw] = {
    "topics": topics,
    "ledger": ledger,
    "repair": repair,
    "days": days,
    "managed": managed,
    "offloading": offloading,
    "light": light,
    "keys": keys,
    "delays": delays,
    "rates": rates,
    "splits": splits,
    "transfers": transfers,
    "passing": passing,
    "transfer": transfer,
    "vacant": vacant,
    "doors": doors,
    "publishing": publishing,
    "regions": regions,
    "geo": geo,
    "moving": moving,
    "migrating": migrating,
    "rivals": rivals,
    "placing": placing,
    "rights": rights,
    "schemas": schemas,
    "compacting": compacting,
    "metadata": metadata,
    "apart": apart,
    "balance": balance,
}
TURNS = (
    "topics",
    "ledger",
    "repair",
    "keys",
    "delays",
    "topics",
    "managed",
    "offloading",
    "passing",
    "publishing",
    "regions",
    "geo",
    "moving",
    "migrating",
    "doors",
    "placing",
    "schemas",
    "compacting",
    "rights",
    "rates",
    "splits",
    "transfers",
    "metadata",
    "apart",
    "balance",
)
"""Scenarios that the seeds of a campaign play in turn, unless one is named."""

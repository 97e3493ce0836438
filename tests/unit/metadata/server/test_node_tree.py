"""A start builds from stored transactions the state that was live."""

import random

import pytest

from engine.metadata.server.changes import ChildrenChanged, NodeDeleted, NodePut
from engine.metadata.server.machine import Machine
from engine.metadata.server.node_tree import CorruptTreeError
from engine.metadata.server.protocol import (
    OPEN_ACL,
    Create,
    Delete,
    ErrorCode,
    Multi,
    MultiAnswer,
    Op,
)
from tests.support.metadata.machine_bench import Bench, RandomWrites, state_of

SEEDS = range(8)
STEPS = 150


def play(bench: Bench, rng: random.Random) -> None:
    """Do one random thing."""
    writes = RandomWrites(rng)
    clients = [bench.client(session_id) for session_id in bench.machine.sessions.ids()]
    bench.now_ms += rng.randrange(5)
    match rng.randrange(20):
        case 0 if len(clients) < 4:
            bench.client()
        case 1 if len(clients) > 1:
            bench.close(rng.choice(clients))
        case 2:
            bench.remove_unused()
        case _:
            bench.write(rng.choice(clients), writes.request())


@pytest.mark.parametrize("seed", SEEDS)
def test_replayed_changes_give_the_live_state_after_each_operation(seed: int) -> None:
    rng = random.Random(seed)
    bench, replayed = Bench(), Machine(0)
    bench.client()
    done = 0
    for _ in range(STEPS):
        play(bench, rng)
        for outcome in bench.outcomes[done:]:
            replayed.replay(outcome.transaction)
            replayed.replay(outcome.transaction)
        done = len(bench.outcomes)
        assert state_of(replayed) == state_of(bench.machine)
        assert replayed.last_zxid == bench.machine.last_zxid
    bench.machine.tree.verify()


@pytest.mark.parametrize("seed", SEEDS)
def test_changes_replayed_over_a_snapshot_that_was_taken_meanwhile_give_the_live_state(
    seed: int,
) -> None:
    rng = random.Random(seed)
    bench = Bench()
    bench.client()
    for _ in range(STEPS):
        play(bench, rng)
    first = len(bench.outcomes)
    started = Machine(0)
    for opened in bench.machine.sessions.changes():
        started.apply(opened)
    for path in bench.machine.tree.paths():
        put = bench.machine.tree.put_of(path)
        if put is not None:
            started.apply(put)
        if rng.randrange(2):
            play(bench, rng)
    for outcome in bench.outcomes[first:]:
        started.replay(outcome.transaction)
    assert state_of(started) == state_of(bench.machine)
    started.tree.verify()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_failed_write_changes_nothing(seed: int) -> None:
    rng = random.Random(seed)
    bench = Bench()
    bench.client()
    failed = 0
    for _ in range(STEPS):
        before = state_of(bench.machine)
        play(bench, rng)
        outcome = bench.outcomes[-1]
        if outcome.code is not ErrorCode.OK or _is_failed_multi(outcome.answer):
            failed += 1
            assert outcome.transaction.changes == ()
            assert outcome.notices == []
            assert state_of(bench.machine) == before
    assert failed > 20


def _is_failed_multi(answer: object) -> bool:
    return isinstance(answer, MultiAnswer) and any(isinstance(r, ErrorCode) for r in answer.results)


def test_a_failed_multi_takes_back_what_its_first_operations_did() -> None:
    bench = Bench()
    client = bench.client()
    bench.create(client, "/a", b"1")
    bench.create(client, "/a/b", b"2", acl=())
    before = state_of(bench.machine)
    outcome = bench.write(
        client,
        Multi(
            (
                Delete("/zookeeper/none", -1),
                Delete("/a", -1),
            )
        ),
    )
    assert outcome.answer == MultiAnswer((ErrorCode.NO_NODE, ErrorCode.RUNTIME_INCONSISTENCY))
    assert state_of(bench.machine) == before


def test_a_tree_with_a_child_that_has_no_parent_is_refused() -> None:
    machine = Machine(0)
    machine.apply(NodePut("/a/b", b"", OPEN_ACL, 1, 1, 1, 1, 0, 0, 0, 0, 1))
    with pytest.raises(CorruptTreeError, match="/a/b"):
        machine.tree.verify()


def test_a_tree_whose_parent_was_deleted_before_its_child_is_refused() -> None:
    bench = Bench()
    client = bench.client()
    bench.create(client, "/a")
    bench.create(client, "/a/b")
    bench.machine.apply(NodeDeleted("/a"))
    with pytest.raises(CorruptTreeError, match="/a/b"):
        bench.machine.tree.verify()


def test_changes_of_a_node_that_a_later_change_deleted_are_ignored() -> None:
    machine = Machine(0)
    before = state_of(machine)
    machine.apply(ChildrenChanged("/gone", 1, 1))
    machine.apply(NodeDeleted("/gone"))
    assert state_of(machine) == before


def test_a_transaction_id_is_not_used_twice() -> None:
    bench = Bench()
    client = bench.client()
    with pytest.raises(ValueError, match="transaction id"):
        bench.machine.write(
            client, Create(Op.CREATE, "/a", b"", OPEN_ACL, 0), bench.machine.last_zxid, 1
        )


def test_an_ephemeral_node_put_again_by_another_session_belongs_to_that_one() -> None:
    machine = Machine(0)
    for owner in (1, 2, 2):
        machine.apply(NodePut("/e", b"", OPEN_ACL, 1, 1, 1, 1, 0, 0, 0, owner, 1))
    assert machine.tree.ephemerals == {2: {"/e": None}}
    machine.apply(NodePut("/e", b"", OPEN_ACL, 1, 1, 1, 1, 0, 0, 0, 0, 1))
    assert machine.tree.ephemerals == {}

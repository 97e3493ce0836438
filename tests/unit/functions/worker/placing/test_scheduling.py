"""Every instance is assigned once, to a worker that is there; moves are few and even out the workers."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from engine.functions.definitions import functions_pb2 as pb
from engine.functions.worker.placing.known_assignments import instance_key, key_of
from engine.functions.worker.placing.scheduling import (
    AssignmentChange,
    Workers,
    rebalance,
    schedule,
)
from tests.support.functions.several_workers import details


def stored(name: str, parallelism: int, version: int = 0) -> pb.FunctionMetaData:
    return pb.FunctionMetaData(functionDetails=details(name, parallelism), version=version)


def assigned(metadata: pb.FunctionMetaData, instance: int, worker: str) -> pb.Assignment:
    return pb.Assignment(
        instance=pb.Instance(functionMetaData=metadata, instanceId=instance), workerId=worker
    )


def applied(
    assignments: dict[str, pb.Assignment], changes: list[AssignmentChange]
) -> dict[str, pb.Assignment]:
    after = dict(assignments)
    for key, assignment in changes:
        if assignment is None:
            del after[key]
        else:
            assert key_of(assignment) == key
            after[key] = assignment
    return after


WORKERS = st.lists(st.sampled_from("abcdef"), unique=True)
FUNCTIONS = st.dictionaries(st.sampled_from("fghijk"), st.integers(1, 5))
PLACES = st.lists(
    st.tuples(st.sampled_from("fghijk"), st.integers(0, 6), st.sampled_from("abcdef"))
)


@given(FUNCTIONS, PLACES, WORKERS, WORKERS)
def test_after_a_schedule_each_instance_is_assigned_once_to_a_worker_that_is_there(
    functions: dict[str, int],
    places: list[tuple[str, int, str]],
    usable: list[str],
    drained: list[str],
) -> None:
    known = {f"public/default/{name}": stored(name, n, 1) for name, n in functions.items()}
    before = {
        instance_key(f"public/default/{name}", i): assigned(stored(name, 1), i, worker)
        for name, i, worker in places
    }
    workers = Workers(usable, {*usable, *drained})
    after = applied(before, schedule(known, before, workers))
    wanted = {instance_key(name, i) for name, n in known.items() for i in range(_count(n))}
    assert set(after) <= wanted
    if usable:
        assert set(after) == wanted
        assert {assignment.workerId for assignment in after.values()} <= set(workers.kept)
    for key, assignment in after.items():
        held = before.get(key)
        if held is not None and held.workerId in workers.kept:
            assert assignment.workerId == held.workerId  # nothing moves without need
        if assignment.workerId in workers.kept:
            assert assignment.instance.functionMetaData == known[key.rpartition(":")[0]]
    assert schedule(known, after, workers) == [] or not usable


def _count(metadata: pb.FunctionMetaData) -> int:
    return metadata.functionDetails.parallelism


@given(FUNCTIONS, st.lists(st.sampled_from("abcdef"), min_size=1, unique=True), st.data())
def test_rebalancing_evens_out_the_workers_in_bounded_moves(
    functions: dict[str, int], usable: list[str], data: st.DataObject
) -> None:
    held = {
        instance_key(f"public/default/{name}", i): assigned(
            stored(name, n), i, data.draw(st.sampled_from("abcdefxy"))
        )
        for name, n in functions.items()
        for i in range(n)
    }
    workers = Workers(usable, usable)
    rounds = 0
    while moves := rebalance(held, workers, 2):
        assert len(moves) <= 2
        held = applied(held, moves)
        rounds += 1
        assert rounds <= 30
    loads = Counter(dict.fromkeys(usable, 0))
    loads.update(assignment.workerId for assignment in held.values())
    assert set(loads) == set(usable)
    assert max(loads.values()) - min(loads.values()) <= 1


def test_instances_of_one_function_are_spread() -> None:
    known = {
        "public/default/f": stored("f", 2),
        "public/default/g": stored("g", 2),
    }
    after = applied({}, schedule(known, {}, Workers("ab", "ab")))
    places = {key: assignment.workerId for key, assignment in after.items()}
    assert places["public/default/f:0"] != places["public/default/f:1"]
    assert places["public/default/g:0"] != places["public/default/g:1"]


def test_without_a_usable_worker_nothing_is_assigned_and_nothing_moves() -> None:
    metadata = stored("f", 2)
    known = {"public/default/f": metadata}
    held = {"public/default/f:0": assigned(metadata, 0, "a")}
    assert schedule(known, held, Workers((), "a")) == []
    assert rebalance(held, Workers((), "a"), 10) == []


def test_an_instance_moves_to_a_worker_that_can_run_it_as_soon_as_there_is_one() -> None:
    metadata = stored("f", 1)
    metadata.functionDetails.runtime = pb.FunctionDetails.JAVA
    known = {"public/default/f": metadata}
    held = applied({}, schedule(known, {}, Workers("a", "a")))
    assert [assignment.workerId for assignment in held.values()] == ["a"]
    shared = Workers("ax", "ax", "x")
    held = applied(held, schedule(known, held, shared))
    assert [assignment.workerId for assignment in held.values()] == ["x"]
    assert schedule(known, held, shared) == rebalance(held, shared, 10) == []


def test_rebalancing_moves_nothing_to_a_worker_that_cannot_run_it() -> None:
    metadata = stored("f", 4)
    metadata.packageLocation.packagePath = "builtin://x"
    held = {f"public/default/f:{i}": assigned(metadata, i, "a") for i in range(4)}
    assert rebalance(held, Workers("ax", "ax", "x"), 10) == []
    moved = rebalance(held, Workers("abx", "abx", "x"), 10)
    assert {change.assignment.workerId for change in moved if change.assignment} == {"b"}

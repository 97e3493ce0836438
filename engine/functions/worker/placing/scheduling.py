"""The decision which worker runs an instance (F3). Pure."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from engine.functions.definitions import functions_pb2 as pb
from engine.functions.worker.placing.abilities import abilities_for
from engine.functions.worker.placing.known_assignments import instance_key, split_key


class AssignmentChange(NamedTuple):
    """Change of the assignment of an instance; None: it is not assigned any more."""

    key: str
    assignment: pb.Assignment | None


class Workers(NamedTuple):
    """The workers as the leader sees them. ``usable``: those that get instances. ``kept``: all that keep those that
    they have: also workers that are missing for so short a time that they may return. ``apaches``: those that are
    Apache's."""

    usable: Collection[str]
    kept: Collection[str]
    apaches: Collection[str] = ()

    def able(self, metadata: pb.FunctionMetaData) -> set[str]:
        """Return the usable workers that can run a function."""
        if not self.apaches:
            return set(self.usable)
        abilities = abilities_for(metadata)
        return {w for w in self.usable if abilities.of(is_apaches=w in self.apaches)}


def schedule(
    functions: Mapping[str, pb.FunctionMetaData],
    assignments: Mapping[str, pb.Assignment],
    workers: Workers,
) -> list[AssignmentChange]:
    """Return the changes after which every instance is assigned once, to a worker that is there, as its function is
    stored. Nothing else moves.

    An instance goes to the worker with the fewest, and among these to that with the fewest of the same function. It
    stays unassigned while there is no usable worker. One that its worker cannot run goes to a worker that can; while
    there is none of these, its status on any worker says why it does not run.
    """
    changes: list[AssignmentChange] = []
    loads = _Loads(workers.usable)
    homeless: list[tuple[str, int, pb.FunctionMetaData]] = []
    wanted: set[str] = set()
    for name, metadata in sorted(functions.items()):
        able = workers.able(metadata)
        for instance in range(metadata.functionDetails.parallelism):
            key = instance_key(name, instance)
            wanted.add(key)
            assignment = assignments.get(key)
            if assignment is None or assignment.workerId not in workers.kept:
                homeless.append((name, instance, metadata))
                continue
            if able and assignment.workerId in workers.usable and assignment.workerId not in able:
                homeless.append((name, instance, metadata))
                continue
            loads.add(name, assignment.workerId)
            if assignment.instance.functionMetaData != metadata:
                renewed = _assignment(metadata, instance, assignment.workerId)
                changes.append(AssignmentChange(key, renewed))
    changes += [AssignmentChange(key, None) for key in assignments if key not in wanted]
    for name, instance, metadata in homeless:
        worker = loads.least(name, workers.able(metadata) or workers.usable)
        if worker is not None:
            loads.add(name, worker)
            key = instance_key(name, instance)
            changes.append(AssignmentChange(key, _assignment(metadata, instance, worker)))
    return changes


def rebalance(
    assignments: Mapping[str, pb.Assignment], workers: Workers, moves_max: int
) -> list[AssignmentChange]:
    """Return at most ``moves_max`` moves that take instances from workers that are drained, then from those with most
    to those with fewest, until these differ by one at most."""
    loads = _Loads(workers.usable)
    for key, assignment in assignments.items():
        loads.add(split_key(key)[0], assignment.workerId)
    held = {key: assignment.workerId for key, assignment in sorted(assignments.items())}
    able = {
        key: workers.able(assignment.instance.functionMetaData)
        for key, assignment in assignments.items()
    }
    moves: dict[str, AssignmentChange] = {}
    while len(moves) < moves_max:
        move = _next_move(held, loads, able.__getitem__)
        if move is None:
            break
        key, worker = move
        name, instance = split_key(key)
        loads.move(name, held[key], worker)
        held[key] = worker
        metadata = assignments[key].instance.functionMetaData
        moves[key] = AssignmentChange(key, _assignment(metadata, instance, worker))
    return list(moves.values())


def _next_move(
    held: Mapping[str, str], loads: "_Loads", able: Callable[[str], Collection[str]]
) -> tuple[str, str] | None:
    """Return the next instance to move, and its new worker. ``able``: the usable workers that can run an instance."""
    for key, worker in held.items():
        if not loads.is_usable(worker):
            target = loads.least(split_key(key)[0], able(key))
            if target is not None:
                return key, target
    most, least = loads.extremes()
    if most is None or least is None or loads.total(most) - loads.total(least) < 2:
        return None
    # The instance of which the new worker has fewest of the same function, so that functions stay spread.
    movable = [key for key, worker in held.items() if worker == most and least in able(key)]
    if not movable:
        return None
    return min(movable, key=lambda key: (loads.of(split_key(key)[0], least), key)), least


class _Loads:
    """Instances of each worker, in all and of each function."""

    def __init__(self, usable: Collection[str]) -> None:
        self._usable = sorted(usable)
        self._total: Counter[str] = Counter()
        self._by_function: Counter[tuple[str, str]] = Counter()

    def is_usable(self, worker: str) -> bool:
        return worker in self._usable

    def total(self, worker: str) -> int:
        return self._total[worker]

    def of(self, function: str, worker: str) -> int:
        return self._by_function[function, worker]

    def add(self, function: str, worker: str) -> None:
        self._total[worker] += 1
        self._by_function[function, worker] += 1

    def move(self, function: str, source: str, target: str) -> None:
        self._total[source] -= 1
        self._by_function[function, source] -= 1
        self.add(function, target)

    def least(self, function: str, able: Collection[str]) -> str | None:
        """Return the worker of ``able`` for a further instance of a function; None without one."""
        return min(
            able,
            key=lambda worker: (self.total(worker), self.of(function, worker), worker),
            default=None,
        )

    def extremes(self) -> tuple[str | None, str | None]:
        """Return the usable workers with most and with fewest instances."""
        most = max(self._usable, key=lambda worker: (self.total(worker), worker), default=None)
        return most, min(
            self._usable, key=lambda worker: (self.total(worker), worker), default=None
        )


def _assignment(metadata: pb.FunctionMetaData, instance: int, worker: str) -> pb.Assignment:
    return pb.Assignment(
        instance=pb.Instance(functionMetaData=metadata, instanceId=instance), workerId=worker
    )

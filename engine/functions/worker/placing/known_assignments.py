"""The assignments of instances to workers, by the last message of each instance in the assignment topic. Pure."""

from collections.abc import Mapping

from engine.functions.definitions import functions_pb2 as pb
from engine.functions.definitions.records import FunctionRecordError, parse
from engine.functions.worker.placing.known_functions import full_name


def instance_key(name: str, instance: int) -> str:
    """Return the key of an instance, ``tenant/namespace/name:instance``."""
    return f"{name}:{instance}"


def split_key(key: str) -> tuple[str, int]:
    """Return a function's full name and the number of the instance. Raises ValueError."""
    name, _, instance = key.rpartition(":")
    return name, int(instance)


def key_of(assignment: pb.Assignment) -> str:
    """Return the key of an assignment."""
    instance = assignment.instance
    return instance_key(full_name(instance.functionMetaData), instance.instanceId)


class KnownAssignments:
    """Assignments by the key of their instance; apply messages in the order of the topic."""

    def __init__(self) -> None:
        self._assignments: dict[str, pb.Assignment] = {}

    @property
    def assignments(self) -> Mapping[str, pb.Assignment]:
        return self._assignments

    def of_worker(self, worker: str) -> dict[str, pb.Assignment]:
        """Return the assignments to a worker."""
        return {
            key: assignment
            for key, assignment in self._assignments.items()
            if assignment.workerId == worker
        }

    def apply(self, key: str, value: bytes) -> bool:
        """Apply a message, whose value is empty when the instance is not assigned; return whether it changed anything.

        Raises FunctionRecordError for a value that is no assignment of ``key``; it is skipped.
        """
        if not value:
            return self._assignments.pop(key, None) is not None
        assignment = parse(pb.Assignment, value)
        if key_of(assignment) != key:
            raise FunctionRecordError(f"{key[:200]}: the assignment of another instance")
        if self._assignments.get(key) == assignment:
            return False
        self._assignments[key] = assignment
        return True

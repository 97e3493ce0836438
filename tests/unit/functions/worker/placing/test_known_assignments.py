"""Assignments follow the messages of the topic, by the key of their instance."""

import pytest

from engine.functions.definitions import functions_pb2 as pb
from engine.functions.definitions.records import FunctionRecordError, encode
from engine.functions.worker.placing.known_assignments import KnownAssignments, split_key
from tests.support.functions.several_workers import details

KEY = "public/default/f:1"


def assignment(worker: str) -> pb.Assignment:
    metadata = pb.FunctionMetaData(functionDetails=details("f", 2))
    return pb.Assignment(
        instance=pb.Instance(functionMetaData=metadata, instanceId=1), workerId=worker
    )


def test_the_last_message_of_a_key_counts_and_an_empty_one_removes_it() -> None:
    known = KnownAssignments()
    assert known.apply(KEY, encode(assignment("a")))
    assert not known.apply(KEY, encode(assignment("a")))
    assert known.apply(KEY, encode(assignment("b")))
    assert known.of_worker("a") == {}
    assert known.of_worker("b") == {KEY: assignment("b")}
    assert known.apply(KEY, b"")
    assert not known.apply(KEY, b"")
    assert known.assignments == {}


@pytest.mark.parametrize(
    ("key", "value"), [("public/default/f:0", encode(assignment("a"))), (KEY, b"\xff")]
)
def test_a_value_that_is_no_assignment_of_its_key_is_refused(key: str, value: bytes) -> None:
    known = KnownAssignments()
    with pytest.raises(FunctionRecordError):
        known.apply(key, value)
    assert known.assignments == {}


def test_a_key_has_the_full_name_and_the_number() -> None:
    assert split_key(KEY) == ("public/default/f", 1)

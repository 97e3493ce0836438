"""Functions follow the requests in the topic; those out of date change nothing."""

from engine.functions.definitions import functions_pb2 as pb
from engine.functions.worker.placing.known_functions import KnownFunctions
from tests.support.functions.several_workers import details

NAME = "public/default/f"
UPDATE, DELETE = pb.ServiceRequest.UPDATE, pb.ServiceRequest.DELETE


def request(
    version: int, kind: "pb.ServiceRequest.ServiceRequestType" = UPDATE
) -> pb.ServiceRequest:
    metadata = pb.FunctionMetaData(functionDetails=details("f"), version=version)
    return pb.ServiceRequest(serviceRequestType=kind, functionMetaData=metadata)


def test_the_newest_version_wins_and_an_older_one_is_out_of_date() -> None:
    known = KnownFunctions()
    assert known.apply(request(0), 1)
    assert known.apply(request(2), 2)
    assert not known.apply(request(2), 3)
    assert not known.apply(request(1), 4)
    assert not known.apply(request(2, DELETE), 5)
    assert known.functions[NAME].version == 2


def test_a_deleted_function_is_remembered_until_it_is_created_again_or_cleaned() -> None:
    known = KnownFunctions()
    known.apply(request(0), 1)
    assert known.apply(request(1, DELETE), 7)
    assert not known.apply(request(2, DELETE), 8)
    assert known.functions == {}
    assert known.deleted[NAME].deleted_ms == 7
    assert known.apply(request(0), 9)
    assert known.deleted == {}


def test_a_request_of_another_kind_changes_nothing() -> None:
    known = KnownFunctions()
    assert not known.apply(request(0, pb.ServiceRequest.INITIALIZE), 1)
    assert known.functions == {}

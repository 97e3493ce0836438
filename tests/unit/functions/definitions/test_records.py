"""The records of functions: the bytes of Apache's workers."""

import json
from pathlib import Path

import pytest
from google.protobuf.json_format import ParseDict

from engine.functions.definitions.functions_pb2 import (
    Assignment,
    FunctionDetails,
    FunctionMetaData,
    ServiceRequest,
)
from engine.functions.definitions.records import (
    FunctionName,
    FunctionRecordError,
    component_of,
    encode,
    parse,
)

GOLDEN = json.loads(
    (Path(__file__).parents[3] / "golden" / "functions" / "records.json").read_text()
)


def test_metadata_have_the_bytes_of_apaches_encoder() -> None:
    data = bytes.fromhex(GOLDEN["metadata_bytes"])
    assert encode(ParseDict(GOLDEN["metadata"], FunctionMetaData())) == data
    assert encode(parse(FunctionMetaData, data)) == data


def test_an_assignment_has_the_bytes_of_apaches_encoder() -> None:
    data = bytes.fromhex(GOLDEN["assignment_bytes"])
    assert encode(ParseDict(GOLDEN["assignment"], Assignment())) == data
    assert parse(Assignment, data).instance.instanceId == 3


def test_the_first_instance_and_an_update_are_absent_from_the_bytes() -> None:
    assert encode(Assignment(workerId="w")) == b"\x12\x01w"
    request = ServiceRequest(
        serviceRequestType=ServiceRequest.ServiceRequestType.UPDATE, requestId="r", workerId="w"
    )
    assert encode(request) == b"\x12\x01r\x22\x01w"


def test_other_bytes_are_refused() -> None:
    with pytest.raises(FunctionRecordError, match="FunctionMetaData"):
        parse(FunctionMetaData, b"\xff\xff")


def test_the_name_of_details_is_pulsars() -> None:
    details = parse(FunctionMetaData, bytes.fromhex(GOLDEN["metadata_bytes"])).functionDetails
    assert str(FunctionName.of(details)) == "public/default/ex"


def test_details_without_a_type_are_what_their_ends_say() -> None:
    source, sink, plain = FunctionDetails(), FunctionDetails(), FunctionDetails()
    source.source.className = "a.Source"
    sink.sink.builtin = "files"
    assert [component_of(details) for details in (source, sink, plain)] == [
        "source",
        "sink",
        "function",
    ]
    assert component_of(FunctionDetails(componentType=FunctionDetails.ComponentType.SINK)) == "sink"

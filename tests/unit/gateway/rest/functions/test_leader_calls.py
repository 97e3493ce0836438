"""Changes of Apache's workers, which these pass on to the worker that leads."""

import pytest

from engine.functions.definitions import functions_pb2 as pb
from tests.support.admin.gateway_client import Answer, Gateway
from tests.support.functions.forms import FORM_TYPE, form, text_part
from tests.support.functions.functions_gateway import FunctionsWorld
from tests.support.functions.several_workers import details

PATH = "/admin/v3/functions/leader/public/default/f"
RECORD = pb.FunctionMetaData(functionDetails=details("f")).SerializeToString()
HEAD = b'Content-Disposition: form-data; name="functionMetaData"\r\n\r\n'
"""The Java client states no type and no file name."""


def sent(call: Gateway, *parts: bytes) -> Answer:
    return call("PUT", PATH, form(*parts), content_type=FORM_TYPE)


def test_a_change_and_a_deletion_are_passed_on(call: Gateway, world: FunctionsWorld) -> None:
    assert sent(call, HEAD + RECORD, text_part("delete", "false")).status == 204
    assert call("GET", "/admin/v3/functions/public/default").json == ["f"]
    assert sent(call, HEAD + RECORD, text_part("delete", "true")).status == 204
    assert call("GET", "/admin/v3/functions/public/default").json == []
    assert [name for name, *_ in world.workers.calls].count("store_metadata") == 2


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ((text_part("delete", "false"),), "functionMetaData: the form has no such part"),
        ((HEAD + RECORD, text_part("delete", "perhaps")), "delete: must be true or false"),
        ((HEAD + bytes(2 << 20),), "functionMetaData: must have at most 1048576 bytes"),
    ],
)
def test_other_forms_are_refused(call: Gateway, parts: tuple[bytes, ...], reason: str) -> None:
    answer = sent(call, *parts)
    assert (answer.status, answer.json["reason"]) == (400, reason)


def test_without_a_worker_the_answer_is_apaches(call: Gateway, world: FunctionsWorld) -> None:
    world.switch_off()
    answer = sent(call, HEAD + RECORD)
    assert answer.status == 409
    assert answer.json["reason"].startswith("Pulsar Function Worker is not enabled")

"""The deployed code as the console's editor gets it."""

import pytest

from admin_ui.functions.selectors import CODE_BYTES_MAX
from tests.support.admin.gateway_client import Gateway
from tests.support.functions.forms import FORM_TYPE, file_part, form, json_part

FUNCTION = "/admin/v3/functions/public/default/ex"
CODE = "/api/v1/clusters/standalone/functions/{}/public/default/{}/code"
CONFIG = {"className": "ex.Ex", "runtime": "PYTHON", "inputs": ["in"], "output": "out"}


def deployed(call: Gateway, content: bytes, file_name: str = "ex.py") -> None:
    body = form(json_part("functionConfig", CONFIG), file_part(content, file_name))
    assert call("POST", FUNCTION, body, content_type=FORM_TYPE).status == 204


def test_a_module_of_python_is_shown_as_text(call: Gateway) -> None:
    deployed(call, 'def process(x):\n    return "grüß dich " + x\n'.encode())
    answer = call("GET", CODE.format("function", "ex"))
    assert answer.status == 200
    shown = (answer.json["file_name"], answer.json["text"])
    assert shown == ("ex.py", 'def process(x):\n    return "grüß dich " + x\n')


@pytest.mark.parametrize(
    ("content", "file_name"),
    [
        (b"PK\x03\x04", "ex.whl"),
        ("# grüße".encode("latin-1"), "ex.py"),
        (b"#" * (CODE_BYTES_MAX + 1), "ex.py"),
    ],
)
def test_code_that_is_no_text_for_an_editor_is_named_alone(
    call: Gateway, content: bytes, file_name: str
) -> None:
    deployed(call, content, file_name)
    answer = call("GET", CODE.format("function", "ex"))
    assert (answer.json["file_name"], answer.json["text"]) == (file_name, None)


def test_a_built_in_connector_has_no_code(call: Gateway) -> None:
    config = {"topicName": "out", "archive": "builtin://generator"}
    assert call("POST", "/admin/v3/sources/public/default/g", config).status == 204
    assert call("GET", CODE.format("source", "g")).status == 404
    assert call("GET", CODE.format("function", "never-deployed")).status == 404

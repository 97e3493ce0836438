"""Forms of several parts: what tools send, and bodies that are none."""

import mmap
import tempfile

import pytest

from engine.base.errors import InvalidField
from gateway.http.forms.multipart import HEAD_BYTES_MAX, PARTS_MAX, Part, is_form, parts_of
from tests.support.functions.forms import FORM_TYPE, file_part, form, json_part, text_part


def shown(part: Part) -> tuple[str, str, str, bytes]:
    return part.name, part.file_name, part.content_type, bytes(part.content)


def test_parts_have_name_type_and_content() -> None:
    body = form(json_part("c", 1), text_part("t", "ü"), file_part(b"\r\n--X\r\n", "a b.py"))
    parts = parts_of(body, FORM_TYPE)
    assert [shown(part) for part in parts.values()] == [
        ("c", "", "application/json", b"1"),
        ("t", "", "", "ü".encode()),
        ("data", "a b.py", "application/octet-stream", b"\r\n--X\r\n"),
    ]
    assert parts["t"].text == "ü"


def test_a_body_in_a_file_is_not_copied() -> None:
    with tempfile.TemporaryFile() as file:
        file.write(form(file_part(b"abc")))
        file.flush()
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    assert bytes(parts_of(mapped, FORM_TYPE)["data"].content) == b"abc"


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        (
            'multipart/form-data; boundary="a b"',
            b"--a b\r\nContent-Disposition: form-data; name=x\r\n\r\ny\r\n--a b--",
        ),
        (
            "Multipart/Form-Data;boundary=b",
            b'pre\r\n--b  \r\nContent-Disposition: form-data; name="x" \r\n\r\ny\r\n--b--\r\nepilogue',
        ),
    ],
)
def test_forms_that_clients_may_send_are_read(content_type: str, body: bytes) -> None:
    assert bytes(parts_of(body, content_type)["x"].content) == b"y"


def test_a_part_may_be_empty_and_a_form_without_parts() -> None:
    assert bytes(parts_of(form(text_part("x", "")), FORM_TYPE)["x"].content) == b""
    assert parts_of(b"--XX--\r\n", FORM_TYPE) == {}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "body: has no part"),
        (b"abc", "body: has no part"),
        (b"--XX", "body: ends within a part"),
        (form(text_part("x", "y"))[:-8], "body: ends within a part"),
        (form(b"\r\ny"), "body: has a part without a name"),
        (
            form(b'Content-Disposition: form-data; name=" "\r\n\r\ny'),
            "body: has a part without a name",
        ),
        (form(b"X: " + b"y" * HEAD_BYTES_MAX + b"\r\n\r\n"), "body: ends within a part"),
        (form(text_part("x", "y"), text_part("x", "z")), "x: is given twice"),
        (form(*(text_part(f"x{i}", "") for i in range(PARTS_MAX + 1))), "body: must have at most"),
    ],
)
def test_other_bodies_are_refused(body: bytes, reason: str) -> None:
    with pytest.raises(InvalidField) as refused:
        parts_of(body, FORM_TYPE)
    assert refused.value.reason.startswith(reason)


@pytest.mark.parametrize(
    "content_type",
    [
        "",
        "multipart/form-data",
        "text/plain; boundary=x",
        f"multipart/form-data; boundary={'x' * 201}",
    ],
)
def test_other_types_are_refused(content_type: str) -> None:
    with pytest.raises(InvalidField, match="Content-Type"):
        parts_of(b"--x--", content_type)


def test_text_that_is_not_utf_8_is_refused() -> None:
    part = parts_of(form(b'Content-Disposition: form-data; name="x"\r\n\r\n\xff'), FORM_TYPE)["x"]
    with pytest.raises(InvalidField, match="x: is not UTF-8"):
        _ = part.text


def test_a_form_is_known_by_its_type() -> None:
    assert is_form("Multipart/form-data; boundary=x")
    assert not is_form("application/json")

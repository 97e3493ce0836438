"""The plain case of HTTP: what it takes h11 takes alike; everything that is odd it leaves to h11."""

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.net.plain_http import HEAD_BYTES_MAX, parse_request, parse_response

REQUEST = b"POST /rpc/x?a=b HTTP/1.1\r\nHost: a:1\r\nX-Token: t\r\nContent-Length: 2\r\n\r\n{}"
RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


def test_a_whole_request_is_parsed() -> None:
    request = parse_request(REQUEST)
    assert request is not None
    assert request == (
        "POST",
        "/rpc/x?a=b",
        {"host": "a:1", "x-token": "t", "content-length": "2"},
        b"{}",
    )


def test_a_whole_response_is_parsed() -> None:
    assert parse_response(RESPONSE) == (200, b"{}")


@pytest.mark.parametrize(
    "data",
    [
        REQUEST[:-1],
        REQUEST + b"x",
        REQUEST[:40],
        REQUEST.replace(b"Host", b"Hos"),
        REQUEST.replace(b"1.1", b"1.0"),
        REQUEST.replace(b"POST", b"HEAD"),
        REQUEST.replace(b" /rpc", b" rpc"),
        REQUEST.replace(b"X-Token: t", b"X-Token : t"),
        REQUEST.replace(b"X-Token: t", b"X-Token: t\r\n continued"),
        REQUEST.replace(b"X-Token: t", b"Content-Length: 2"),
        REQUEST.replace(b"X-Token: t", b"Transfer-Encoding: chunked"),
        REQUEST.replace(b"X-Token: t", b"Connection: close"),
        REQUEST.replace(b"X-Token: t", b"Expect: 100-continue"),
        REQUEST.replace(b"X-Token: t", b"X-Token: \x00"),
        REQUEST.replace(b"X-Token: t", b"X-Token: \xff"),
        REQUEST.replace(b"X-Token: t", b"X-Token: " + b"t" * HEAD_BYTES_MAX),
        REQUEST.replace(b"Length: 2", b"Length: +2"),
        REQUEST.replace(b"Length: 2", b"Length: 2, 2"),
        REQUEST.replace(b"\r\n", b"\n"),
    ],
)
def test_an_odd_request_is_left_to_h11(data: bytes) -> None:
    assert parse_request(data) is None


@pytest.mark.parametrize(
    "data",
    [
        RESPONSE[:-1],
        RESPONSE + b"x",
        RESPONSE.replace(b"200", b"204"),
        RESPONSE.replace(b"200", b"304"),
        RESPONSE.replace(b"200", b"100"),
        RESPONSE.replace(b"1.1", b"1.0"),
        RESPONSE.replace(b"Content-Length: 2\r\n", b""),
        RESPONSE.replace(b"Content-Type: application/json", b"Connection: close"),
        RESPONSE.replace(b"Content-Type: application/json", b"Transfer-Encoding: chunked"),
    ],
)
def test_an_odd_response_is_left_to_h11(data: bytes) -> None:
    assert parse_response(data) is None


PIECES = st.sampled_from(
    [
        b"GET", b"POST", b"HEAD", b" ", b"  ", b"/", b"/a?b", b"HTTP/1.1", b"HTTP/1.0", b"\r\n", b"\n", b"\r\n\r\n",
        b":", b": ", b":\t", b"Host", b"a", b"Content-Length", b"0", b"2", b"-1", b"{}", b"Connection", b"close",
        b"\x00", b"\xff", b"Transfer-Encoding", b"chunked", b"HTTP/1.1 200 OK", b"200",
    ]
)  # fmt: skip


@st.composite
def edited(draw: st.DrawFn, base: bytes) -> bytes:
    """``base`` with some pieces put in or over others."""
    data = base
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(data)))
        data = data[:at] + draw(PIECES) + data[at + draw(st.integers(0, 4)) :]
    return data


def by_h11(role: type[h11.CLIENT] | type[h11.SERVER], data: bytes) -> tuple[object, bytes, bytes]:
    """Return head, body and the remaining bytes, as h11 reads them. Raises h11's errors."""
    reader = h11.Connection(role)
    if role is h11.CLIENT:
        reader.send(h11.Request(method="GET", target="/", headers=[("Host", "a")]))
        reader.send(h11.EndOfMessage())
    reader.receive_data(data)
    head, body = reader.next_event(), b""
    while not isinstance(event := reader.next_event(), h11.EndOfMessage):
        assert isinstance(event, h11.Data), event
        body += event.data
    return head, body, reader.trailing_data[0]


@given(edited(REQUEST))
def test_a_parsed_request_equals_what_h11_reads(data: bytes) -> None:
    request = parse_request(data)
    if request is None:
        return
    head, body, rest = by_h11(h11.SERVER, data)
    assert isinstance(head, h11.Request)
    assert (request.method.encode(), request.target.encode()) == (head.method, head.target)
    assert request.headers == {name.decode(): value.decode() for name, value in head.headers}
    assert (request.body, rest) == (body, b"")


@given(edited(RESPONSE))
def test_a_parsed_response_equals_what_h11_reads(data: bytes) -> None:
    response = parse_response(data)
    if response is None:
        return
    head, body, rest = by_h11(h11.CLIENT, data)
    assert isinstance(head, h11.Response)
    assert (response.status, response.body, rest) == (head.status_code, body, b"")

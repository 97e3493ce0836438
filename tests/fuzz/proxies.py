"""Parsers of what load balancers and clients send to the proxy before bytes are copied."""

from ipaddress import ip_address

from engine.base.addresses import ServiceUrl
from engine.net.proxy_header import BINARY, HeaderError, missing, source
from engine.proxy.known_brokers import authority_of
from tests.fuzz.target import Target

ADDRESSES = bytes([10, 1, 2, 3, 10, 0, 0, 1, 0x30, 0x39, 0x19, 0xFA])


def header(data: bytes) -> None:
    """Read a header as a connection does, in the pieces that it asks for."""
    read = b""
    while size := missing(read):
        assert 0 < size <= 1 << 16
        piece = data[len(read) : len(read) + size]
        if not piece:
            return
        read += piece
    address = source(read)
    if address is not None:
        host, port = address
        assert ip_address(host)
        assert 0 <= port < 1 << 16


def target(data: bytes) -> None:
    authority = authority_of(data.decode("utf-8", "replace"))
    assert ServiceUrl.parse(f"pulsar://{authority}").authority.lower() == authority


PROXIES = (
    Target(
        "proxy header",
        header,
        [
            b"PROXY TCP4 192.0.2.7 10.0.0.1 56324 6650\r\n",
            b"PROXY TCP6 2001:db8::7 ::1 1 2\r\n",
            b"PROXY UNKNOWN\r\n",
            BINARY + b"\x21\x11\x00\x0c" + ADDRESSES,
            BINARY + b"\x21\x21\x00\x24" + bytes(36),
            BINARY + b"\x20\x00\x00\x00",
        ],
        (HeaderError,),
        words=[b"PROXY ", b"\r\n", b"TCP4", b"TCP6", BINARY],
    ),
    Target(
        "proxy target",
        target,
        [b"broker:6650", b"pulsar+ssl://[::1]:6651", b"127.0.0.1:1"],
        (ValueError,),
        words=[b"pulsar://", b"[", b"]", b":"],
    ),
)

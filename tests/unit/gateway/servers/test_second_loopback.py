"""A gateway on the loopback serves ``localhost`` whichever address that is."""

import socket

import pytest

from gateway import serve


def has_second_loopback() -> bool:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


@pytest.mark.skipif(not has_second_loopback(), reason="this machine has no ::1")
def test_both_loopback_addresses_are_served_on_the_same_port() -> None:
    first = serve.listen("127.0.0.1", 0)
    port = first.getsockname()[1]
    with first:
        [second] = serve.listen_on_second_loopback("127.0.0.1", port)
        with second:
            socket.create_connection(("::1", port), 5).close()
            assert serve.listen_on_second_loopback("127.0.0.1", port) == [], "taken by another"


def test_another_address_is_served_alone() -> None:
    assert serve.listen_on_second_loopback("192.0.2.1", 1) == []

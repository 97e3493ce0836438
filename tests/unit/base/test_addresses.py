"""Which addresses only this machine can reach, which stand for all, and where a server may listen."""

import pytest

from engine.base.addresses import is_wildcard, may_listen


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "0::0", "*", ""])
def test_wildcard(host: str) -> None:
    assert is_wildcard(host)


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "10.0.0.1", "localhost", "broker.example"])
def test_not_wildcard(host: str) -> None:
    assert not is_wildcard(host)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.9.9.9", "::1"])
def test_loopback_is_always_listened_on(host: str) -> None:
    assert may_listen(host, authenticated=False)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "localhost.example", ""])
def test_other_addresses_need_authentication_or_permission(host: str) -> None:
    assert not may_listen(host, authenticated=False)
    assert may_listen(host, authenticated=True)
    assert may_listen(host, authenticated=False, insecure=True)

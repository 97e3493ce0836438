"""Loopback and wildcard addresses, service URLs, and the addresses on which a server may listen."""

import pytest

from engine.base.addresses import ReachSettings, ServiceUrl, is_wildcard, may_listen
from engine.base.settings import SettingsError


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


@pytest.mark.parametrize(
    ("url", "parsed", "authority"),
    [
        ("pulsar://a:6650", ServiceUrl("a", 6650, False), "a:6650"),
        ("pulsar+ssl://127.0.0.1:6651", ServiceUrl("127.0.0.1", 6651, True), "127.0.0.1:6651"),
        ("pulsar+ssl://[::1]:0", ServiceUrl("::1", 0, True), "[::1]:0"),
    ],
)
def test_service_urls(url: str, parsed: ServiceUrl, authority: str) -> None:
    assert ServiceUrl.parse(url) == parsed
    assert parsed.authority == authority


@pytest.mark.parametrize(
    "url",
    ["", "a:1", "http://a:1", "pulsar://a", "pulsar://:1", "pulsar://a:65536", "pulsar://a:x"],
)
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"is not a URL such as pulsar://host:6650"):
        ServiceUrl.parse(url)


def test_a_host_that_must_not_be_listened_on_is_refused_by_name() -> None:
    with pytest.raises(SettingsError, match=r"bind_address '10\.0\.0\.1' is not loopback"):
        ReachSettings().check("bind_address", "10.0.0.1", authenticated=False)
    ReachSettings().check("bind_address", "10.0.0.1", authenticated=True)
    ReachSettings(insecure_anywhere=True).check("bind_address", "10.0.0.1", authenticated=False)


@pytest.mark.parametrize(
    ("host", "authenticated", "warned"),
    [("10.0.0.1", False, True), ("10.0.0.1", True, False), ("127.0.0.1", False, False)],
)
def test_a_program_that_anyone_may_use_has_a_warning(
    host: str, authenticated: bool, warned: bool
) -> None:
    reach = ReachSettings(insecure_anywhere=True)
    warning = reach.warning("host", host, authenticated=authenticated)
    assert bool(warning) is warned

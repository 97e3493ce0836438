"""Listeners in settings and records: what is refused, and Pulsar's form."""

import pytest

from engine.net.listener_urls import (
    ListenerAddress,
    ListenerUrls,
    decode_listeners,
    encode_listeners,
    parse_addresses,
    parse_listeners,
)

TEXT = (
    "inner:pulsar://10.0.0.1:6650, outer:pulsar+ssl://broker.example.org:443,"
    "outer:https://broker.example.org:8443,outer:pulsar://[2001:db8::1]:6650"
)
STORED = {
    "inner": {"brokerServiceUrl": "pulsar://10.0.0.1:6650"},
    "outer": {
        "brokerServiceUrl": "pulsar://[2001:db8::1]:6650",
        "brokerServiceUrlTls": "pulsar+ssl://broker.example.org:443",
        "brokerHttpsUrl": "https://broker.example.org:8443",
    },
}


def test_listeners_are_stored_in_the_form_of_apaches_brokers() -> None:
    listeners = parse_listeners("x", TEXT)
    assert encode_listeners(listeners) == STORED
    assert decode_listeners(STORED) == listeners


@pytest.mark.parametrize("value", [None, {}, [], "a", {"a": 1}])
def test_a_record_without_readable_listeners_has_none(value: object) -> None:
    assert dict(decode_listeners(value)) == {}


def test_an_unknown_key_and_null_of_a_listener_are_left_out() -> None:
    value = {"a": {"brokerServiceUrl": None, "more": 1, "brokerHttpUrl": "http://a:1"}}
    assert decode_listeners(value) == {"a": ListenerUrls(web_url="http://a:1")}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a", "'a' is not <listener>:<scheme>://<host>:<port>"),
        ("a:pulsar://h", "'a:pulsar://h' is not <listener>:"),
        ("pulsar://h:1", "'pulsar://h:1' is not <listener>:"),
        ("a:pulsar://h:1/x", "is not <listener>:"),
        ("a b:pulsar://h:1", "is not <listener>:"),
        ("a:kafka://h:1", "must be one of pulsar, pulsar\\+ssl, http, https"),
        ("a:pulsar://h:65536", "the port of 'a:pulsar://h:65536' must be at most 65535"),
        ("a:pulsar://h:0", "clients cannot connect to pulsar://h:0"),
        ("a:pulsar://0.0.0.0:1", "clients cannot connect to pulsar://0.0.0.0:1"),
        ("a:pulsar://[::]:1", "clients cannot connect to pulsar://\\[::\\]:1"),
        ("a:pulsar://h:1,a:pulsar://h:2", "listener a has two addresses for pulsar"),
        ("a:pulsar://h:1,b:pulsar+ssl://h:1", "listeners a and b have the same address"),
        ("a:http://h:1", "listener a has no address for pulsar or pulsar\\+ssl"),
    ],
)
def test_a_listener_that_clients_cannot_use_is_refused_by_name(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^advertised_listeners: .*{reason}"):
        parse_listeners("advertised_listeners", text)


def test_an_address_to_listen_on_may_be_every_address_and_any_port() -> None:
    parsed = parse_addresses("bind_addresses", "a:pulsar://0.0.0.0:0,b:pulsar+ssl://[::]:6651")
    assert parsed == [
        ListenerAddress("a", "pulsar", "0.0.0.0", 0),
        ListenerAddress("b", "pulsar+ssl", "::", 6651),
    ]
    assert parsed[1].url == "pulsar+ssl://[::]:6651"

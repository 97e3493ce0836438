"""Listeners of a broker: named sets of addresses, of which a client receives the set that it can reach (T7).

Texts and keys are Pulsar's (``advertisedListeners``, ``bindAddresses``).
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any, NamedTuple

from engine.base.addresses import is_wildcard

FIELDS = {
    "pulsar": "service_url",
    "pulsar+ssl": "service_url_tls",
    "http": "web_url",
    "https": "web_url_tls",
}
"""Field of ListenerUrls by scheme."""
KEYS = ("brokerServiceUrl", "brokerServiceUrlTls", "brokerHttpUrl", "brokerHttpsUrl")
"""Keys of a stored listener, in the order of the fields of ListenerUrls."""
_ITEM = re.compile(
    r"(?P<name>[\w-]+):(?P<scheme>[a-z+]+)://(?P<host>\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]*):(?P<port>\d{1,5})"
)


@dataclass(frozen=True, slots=True)
class ListenerUrls:
    """Addresses of a broker for the clients of one listener; a field is empty where it has none."""

    service_url: str = ""
    service_url_tls: str = ""
    web_url: str = ""
    web_url_tls: str = ""


Listeners = Mapping[str, ListenerUrls]
"""Addresses by the listener's name, in order of configuration."""
NO_LISTENERS: Listeners = MappingProxyType({})


class ListenerAddress(NamedTuple):
    """One address of a listener. ``host`` has no brackets."""

    listener: str
    scheme: str
    host: str
    port: int

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


def parse_addresses(setting: str, text: str) -> list[ListenerAddress]:
    """Parse ``<listener>:<scheme>://<host>:<port>,…``. Raises ValueError, which names ``setting`` and the item."""
    return list(_addresses(setting, text))


def _addresses(setting: str, text: str) -> Iterator[ListenerAddress]:
    for item in filter(None, (item.strip() for item in text.split(","))):
        matched = _ITEM.fullmatch(item)
        if matched is None:
            raise ValueError(f"{setting}: {item!r} is not <listener>:<scheme>://<host>:<port>")
        scheme, port = matched["scheme"], int(matched["port"])
        if scheme not in FIELDS:
            raise ValueError(
                f"{setting}: the scheme of {item!r} must be one of {', '.join(FIELDS)}"
            )
        if port > 0xFFFF:
            raise ValueError(f"{setting}: the port of {item!r} must be at most 65535")
        yield ListenerAddress(matched["name"], scheme, matched["host"].strip("[]"), port)


def parse_listeners(setting: str, text: str) -> dict[str, ListenerUrls]:
    """Parse the addresses that a broker advertises, by listener in the order of the text.

    Raises ValueError for a malformed item, an address that clients cannot connect to, an address that two listeners
    share, two addresses of one listener and scheme, and a listener without an address of Pulsar's protocol.
    """
    listeners: dict[str, ListenerUrls] = {}
    owners: dict[tuple[str, int], str] = {}
    for address in parse_addresses(setting, text):
        if is_wildcard(address.host) or not address.port:
            raise ValueError(f"{setting}: clients cannot connect to {address.url}")
        owner = owners.setdefault((address.host, address.port), address.listener)
        if owner != address.listener:
            raise ValueError(
                f"{setting}: listeners {owner} and {address.listener} have the same address "
                f"{address.url}"
            )
        urls = listeners.get(address.listener, ListenerUrls())
        field = FIELDS[address.scheme]
        if getattr(urls, field):
            raise ValueError(
                f"{setting}: listener {address.listener} has two addresses for {address.scheme}"
            )
        listeners[address.listener] = replace(urls, **{field: address.url})
    for name, urls in listeners.items():
        if not urls.service_url and not urls.service_url_tls:
            raise ValueError(f"{setting}: listener {name} has no address for pulsar or pulsar+ssl")
    return listeners


def encode_listeners(listeners: Listeners) -> dict[str, dict[str, str]]:
    """Return the JSON value that records of brokers and bundles have under ``advertisedListeners``."""
    return {
        name: {
            key: url
            for key, field in zip(KEYS, fields(urls), strict=True)
            if (url := getattr(urls, field.name))
        }
        for name, urls in listeners.items()
    }


def decode_listeners(value: Any) -> Listeners:
    """Decode ``advertisedListeners`` of a record, also of Apache Pulsar. What has another form is left out."""
    if not isinstance(value, dict) or not value:
        return NO_LISTENERS
    return {
        str(name): ListenerUrls(*(str(urls.get(key) or "") for key in KEYS))
        for name, urls in value.items()
        if isinstance(urls, dict)
    }

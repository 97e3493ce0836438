"""Records of the metadata store, byte for byte as Apache Pulsar 4.0.8 and BookKeeper 4.17 write them. Pure.

JSON records keep the order and the fields they were read with, so that unknown fields survive a change.
``engine.managed`` and ``engine.ledger`` have the records of managed ledgers and ledgers.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.base.errors import MagnetarError
from engine.metadata.protobuf.protobinary import put_bytes, put_int, take_fields
from engine.metadata.protobuf.prototext import escape, parse_text

Document = dict[str, Any]
Stored = Mapping[str, Any]
"""A document that callers share; it must not be changed at any depth."""


class RecordFormatError(MagnetarError, ValueError):
    """An unreadable stored record; the message names the record and the fault."""


def encode_json(document: Mapping[str, Any] | Sequence[Any]) -> bytes:
    """Encode as compact UTF-8 JSON with keys in the given order, as Jackson writes it.

    Raises ValueError for values that JSON cannot represent: numbers that are not finite, unpaired surrogates.
    """
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def decode_json(data: bytes, record: str) -> Document:
    """Decode a JSON object; an empty value is an empty object. Raises RecordFormatError, which names ``record``."""
    try:
        document = json.loads(data or b"{}")
        if b"\\u" in data:
            encode_json(document)  # an unpaired surrogate can be read, but never written again
    except (ValueError, RecursionError) as e:
        raise RecordFormatError(f"{record}: {e}") from e
    if not isinstance(document, dict):
        raise RecordFormatError(f"{record}: a JSON object is needed")
    return document


@dataclass(slots=True)
class BookieRacks:
    """Record ``/bookies``: racks that operators configured. ``document`` is {group: {bookie: {rack, hostname}}}."""

    document: Document = field(default_factory=dict)

    @property
    def racks(self) -> dict[str, str]:
        """Rack by bookie id, with a leading slash as in Pulsar's topology."""
        racks: dict[str, str] = {}
        for bookies in self.document.values():
            for bookie, facts in bookies.items():
                rack = facts.get("rack") or ""
                if rack:
                    racks[bookie] = rack if rack.startswith("/") else f"/{rack}"
        return racks

    def encode(self) -> bytes:
        return encode_json(self.document)

    @classmethod
    def decode(cls, data: bytes) -> "BookieRacks":
        document = decode_json(data, "bookie racks")
        for group, bookies in document.items():
            if not isinstance(bookies, dict):
                raise RecordFormatError(f"bookie racks: group {group} is no object")
            for bookie, facts in bookies.items():
                if not isinstance(facts, dict) or not isinstance(facts.get("rack", ""), str | None):
                    raise RecordFormatError(f"bookie racks: {group}/{bookie} has no rack")
        return cls(document)


BOOKIE_PROTOCOL = "bookie-rpc"
HTTP_PROTOCOL = "http"


@dataclass(slots=True)
class Endpoint:
    """One address of a bookie."""

    id: str
    host: str
    port: int
    protocol: str
    auth: list[str] = field(default_factory=list)
    extensions: list[str] = field(default_factory=list)


@dataclass(slots=True)
class BookieRegistration:
    """Ephemeral record ``/ledgers/available[/readonly]/<bookie id>``: BookieServiceInfoFormat."""

    endpoints: list[Endpoint]
    properties: dict[str, str] = field(default_factory=dict)

    @classmethod
    def at(
        cls, host: str, port: int, http_port: int | None = None, *, tls: bool = False
    ) -> "BookieRegistration":
        """Return the record of a bookie on ``port`` that grants START_TLS there with ``tls``."""
        registration = cls([])
        if http_port is not None:  # first, as BookKeeper writes it
            registration.endpoints.append(Endpoint("httpserver", host, http_port, HTTP_PROTOCOL))
        bookie = Endpoint("bookie", host, port, BOOKIE_PROTOCOL)
        if tls:
            bookie.extensions.append("tls")
        registration.endpoints.append(bookie)
        return registration

    def http_url(self) -> str | None:
        """Return the URL of the bookie's HTTP server without a slash at the end; None when it has none."""
        for endpoint in self.endpoints:
            if endpoint.protocol == HTTP_PROTOCOL:
                return f"http://{endpoint.host}:{endpoint.port}"
        return None

    def address(self, bookie_id: str) -> tuple[str, int]:
        """Return host and port to connect to; without an endpoint the id itself is ``host:port``.

        Raises RecordFormatError.
        """
        for endpoint in self.endpoints:
            if endpoint.protocol == BOOKIE_PROTOCOL:
                return endpoint.host, endpoint.port
        host, _, port = bookie_id.rpartition(":")
        if not host or not port.isdigit():
            raise RecordFormatError(f"bookie {bookie_id}: no address registered")
        return host, int(port)

    def encode(self) -> bytes:
        out = bytearray()
        for endpoint in self.endpoints:
            body = bytearray()
            put_bytes(body, 1, endpoint.id.encode())
            put_int(body, 2, endpoint.port)
            put_bytes(body, 3, endpoint.host.encode())
            put_bytes(body, 4, endpoint.protocol.encode())
            for name in endpoint.auth:
                put_bytes(body, 5, name.encode())
            for name in endpoint.extensions:
                put_bytes(body, 6, name.encode())
            put_bytes(out, 6, bytes(body))
        for key, value in self.properties.items():
            body = bytearray()
            put_bytes(body, 1, key.encode())
            put_bytes(body, 2, value.encode())
            put_bytes(out, 7, bytes(body))
        return bytes(out)

    @classmethod
    def decode(cls, data: bytes) -> "BookieRegistration":
        registration = cls([])
        try:
            for number, value in take_fields(data):
                if number == 6 and isinstance(value, bytes):
                    registration.endpoints.append(_endpoint(value))
                elif number == 7 and isinstance(value, bytes):
                    pair = {n: v.decode() for n, v in take_fields(value) if isinstance(v, bytes)}
                    registration.properties[pair.get(1, "")] = pair.get(2, "")
        except (ValueError, IndexError) as e:
            raise RecordFormatError(f"bookie registration: {e}") from e
        return registration


def _endpoint(body: bytes) -> Endpoint:
    endpoint = Endpoint("", "", 0, "")
    for number, value in take_fields(body):
        if number == 2 and isinstance(value, int):
            endpoint.port = value
        elif isinstance(value, bytes):
            text = value.decode()
            match number:
                case 1:
                    endpoint.id = text
                case 3:
                    endpoint.host = text
                case 4:
                    endpoint.protocol = text
                case 5:
                    endpoint.auth.append(text)
                case 6:
                    endpoint.extensions.append(text)
    return endpoint


@dataclass(slots=True)
class Cookie:
    """Cookie that ties a bookie id to its disks (layout 5).

    It is stored at ``/ledgers/cookies/<bookie id>`` and in the file VERSION of each directory.
    """

    bookie_id: str
    journal_dirs: list[str]
    ledger_dirs: list[str]
    index_dirs: list[str] = field(default_factory=list)
    instance_id: str | None = None

    def encode(self) -> bytes:
        lines = ["5"]
        lines.append("bookieHost: " + escape(self.bookie_id.encode()))
        lines.append("journalDir: " + escape(",".join(self.journal_dirs).encode()))
        lines.append("ledgerDirs: " + escape(_counted(self.ledger_dirs)))
        if self.instance_id is not None:
            lines.append("instanceId: " + escape(self.instance_id.encode()))
        if self.index_dirs and self.index_dirs != self.ledger_dirs:
            lines.append("indexDirs: " + escape(_counted(self.index_dirs)))
        return ("\n".join(lines) + "\n").encode()

    @classmethod
    def decode(cls, data: bytes) -> "Cookie":
        version, _, body = data.decode(errors="replace").partition("\n")
        if version != "5":
            raise RecordFormatError(f"cookie: layout version {version[:20]!r}, only 5 is known")
        try:
            fields = parse_text(body)
            texts = {name: values[-1].decode() for name, values in fields.items() if values}  # type: ignore[attr-defined]
            instance: str | None = texts.get("instanceId")
            return cls(
                texts["bookieHost"],
                texts["journalDir"].split(","),
                texts["ledgerDirs"].split("\t")[1:],
                texts.get("indexDirs", "").split("\t")[1:],
                instance,
            )
        except (ValueError, KeyError, AttributeError) as e:
            raise RecordFormatError(f"cookie: {e}") from e


def _counted(directories: list[str]) -> bytes:
    """Return the directories behind their number, separated by tabs."""
    return "\t".join([str(len(directories)), *directories]).encode()

"""Values decoded by the schemas of their topic, read from the brokers' storage once per version and task."""

import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import NamedTuple

import pyarrow.compute as pc

from engine.base.names import TopicName
from engine.client.client import PulsarClient
from engine.schema.decoding import Decoder, UndecodableError, decoder
from engine.schema.kinds import InvalidSchemaError, version_bytes
from engine.schema.locator import SchemaVersion
from engine.schema.schema_registry import schema_id
from engine.schema.stored_versions import LostVersionError, StoredVersions, UnreadableError
from engine.schema.wire_form import from_wire
from engine.wire.errors import REFUSALS, ServerError
from spark_jobs.pulsar_source.brokers.access import BrokerAccess
from spark_jobs.pulsar_source.brokers.entries import OPEN_S
from spark_jobs.pulsar_source.columns import EntryKind, Opened
from spark_jobs.pulsar_source.patience import patiently

TEXT_CHARS_MAX = 64 << 20
"""Characters of one batch of rows, which one more value may exceed."""
DECODERS_MAX = 1000
_NO_VERSION = "its producer named no schema version"
_NOT_OPENED = {EntryKind.CHUNK: "a chunk of a message", EntryKind.ENCRYPTED: "encrypted"}


class Decoded(NamedTuple):
    """JSON of consecutive messages, and the reason where there is none."""

    values: list[str | None]
    errors: list[str | None]


class TopicSchemas:
    """Schemas of one topic, for one task. For a version that cannot be read or decoded the reason is kept instead."""

    wanted = frozenset({"value", "schema_version", "key_bytes"})
    """The columns that decoding needs."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._schema_id = schema_id(TopicName.parse(topic))
        self._places: dict[int, SchemaVersion] | None = None
        self._known: dict[int, Decoder | str] = {}
        self._waited = False
        """True after a wait for bookies that do not answer, which one task does once."""

    async def load(
        self, opened: Opened, stored: StoredVersions, brokers: BrokerAccess | None = None
    ) -> None:
        """Load the versions of these messages, from brokers where bookies are not read or do not answer.

        Raises StoreUnavailableError when the metadata store stays unavailable, and as ``PulsarClient.schema`` when no
        broker answers, or the right to the topic is missing.
        """
        versions = pc.unique(opened.messages["schema_version"]).to_pylist()
        new = [
            version for version in versions if version is not None and version not in self._known
        ]
        if len(self._known) + len(new) > DECODERS_MAX:
            self._known.clear()
            new = [version for version in versions if version is not None]
        for version in new:
            self._known[version] = await self._find(version, stored, brokers)

    async def _find(
        self, version: int, stored: StoredVersions, brokers: BrokerAccess | None
    ) -> Decoder | str:
        try:
            if brokers is not None and brokers.alone:
                return await self._of_brokers(version, brokers.client())
            place = (await self._all(stored)).get(version)
            if place is None:
                return f"the topic has no schema version {version}"
            read = partial(stored.live, place)
            version_read = await (read() if self._waited else patiently(read))
            if version_read is None:
                return f"schema version {version} is a deletion"
            return decoder(version_read.registered.schema)
        except InvalidSchemaError as error:
            return f"schema version {version}: {error}"
        except LostVersionError as error:
            return str(error)
        except UnreadableError as error:
            self._waited = True
            if brokers is None:
                return str(error)
            return await self._of_brokers(version, brokers.client())

    async def _of_brokers(self, version: int, client: PulsarClient) -> Decoder | str:
        ask = partial(client.schema, self._topic, version_bytes(version))
        try:
            return decoder(from_wire(await client.patiently(ask, timeout_s=OPEN_S)))
        except REFUSALS[ServerError.TopicNotFound]:
            return f"the topic has no schema version {version}"
        except InvalidSchemaError as error:
            return f"schema version {version}: {error}"

    async def _all(self, stored: StoredVersions) -> Mapping[int, SchemaVersion]:
        """Return the places of all versions. Every version that messages of this task can name was registered before it
        began."""
        if self._places is None:
            node = await patiently(partial(stored.node, self._schema_id))
            self._places = {version.version: version for version in node.versions}
        return self._places

    def decoded(self, opened: Opened) -> Iterator[tuple[int, Decoded]]:
        """Yield runs of decoded messages of at most about TEXT_CHARS_MAX, each with the index of its first message."""
        messages = opened.messages
        kinds = opened.entries["kind"].to_numpy()[opened.entry_of_message()]
        start, held, run = 0, 0, Decoded([], [])
        for position, (kind, value, version, key) in enumerate(
            zip(
                kinds.tolist(),
                messages["value"],
                messages["schema_version"].to_pylist(),
                messages["key_bytes"],
                strict=True,
            )
        ):
            text, error = self._decode(kind, value.as_py(), version, key.as_py())
            run.values.append(text)
            run.errors.append(error)
            held += len(text or "")
            if held > TEXT_CHARS_MAX:
                yield start, run
                start, held, run = position + 1, 0, Decoded([], [])
        if run.values or not start:
            yield start, run

    def _decode(
        self, kind: int, value: bytes | None, version: int | None, key: bytes | None
    ) -> tuple[str | None, str | None]:
        if kind in _NOT_OPENED:
            return None, _NOT_OPENED[EntryKind(kind)]
        if value is None:
            return None, None
        if version is None:
            return None, _NO_VERSION
        decoder_or_reason = self._known[version]
        if isinstance(decoder_or_reason, str):
            return None, decoder_or_reason
        try:
            return _to_json(decoder_or_reason.value(value, key)), None
        except UndecodableError as error:
            return None, str(error)


_to_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode

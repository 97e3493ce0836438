"""Values decoded by the schemas of their topic, read from where brokers keep them: once per version and task."""

import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import NamedTuple

import pyarrow.compute as pc

from engine.base.names import TopicName
from engine.schema.decoding import Decoder, UndecodableError, decoder
from engine.schema.kinds import InvalidSchemaError
from engine.schema.locator import SchemaVersion
from engine.schema.schema_registry import schema_id
from engine.schema.stored_versions import LostVersionError, StoredVersions, UnreadableError
from spark_jobs.pulsar_source.columns import Kind, Opened
from spark_jobs.pulsar_source.patience import patiently

TEXT_CHARS_MAX = 64 << 20
"""Of one batch of rows, which one more value may exceed."""
DECODERS_MAX = 1000
_NO_VERSION = "its producer named no schema version"
_NOT_OPENED = {Kind.CHUNK: "a chunk of a message", Kind.ENCRYPTED: "encrypted"}


class Decoded(NamedTuple):
    """Of consecutive messages: JSON, and why there is none."""

    values: list[str | None]
    errors: list[str | None]


class TopicSchemas:
    """Of one topic and task. A version that cannot be read, or not decoded by, has the reason instead."""

    wanted = frozenset({"value", "schema_version", "key_bytes"})
    """The columns that it needs."""

    def __init__(self, topic: str) -> None:
        self._schema_id = schema_id(TopicName.parse(topic))
        self._places: dict[int, SchemaVersion] | None = None
        self._known: dict[int, Decoder | str] = {}
        self._waited = False
        """For bookies that do not answer: once a task is enough."""

    async def know(self, opened: Opened, stored: StoredVersions) -> None:
        """The versions of these messages. Raises StoreUnavailableError when the metadata store stays away."""
        versions = pc.unique(opened.messages["schema_version"]).to_pylist()
        new = [one for one in versions if one is not None and one not in self._known]
        if len(self._known) + len(new) > DECODERS_MAX:
            self._known.clear()
            new = [one for one in versions if one is not None]
        for version in new:
            self._known[version] = await self._find(version, stored)

    async def _find(self, version: int, stored: StoredVersions) -> Decoder | str:
        try:
            place = (await self._all(stored)).get(version)
            if place is None:
                return f"the topic has no schema version {version}"
            ask = partial(stored.live, place)
            found = await (ask() if self._waited else patiently(ask))
            if found is None:
                return f"schema version {version} is a deletion"
            return decoder(found.registered.schema)
        except InvalidSchemaError as error:
            return f"schema version {version}: {error}"
        except LostVersionError as error:
            return str(error)
        except UnreadableError as error:
            self._waited = True
            return str(error)

    async def _all(self, stored: StoredVersions) -> Mapping[int, SchemaVersion]:
        """All that messages of this task can name is registered before it begins."""
        if self._places is None:
            node = await patiently(partial(stored.node, self._schema_id))
            self._places = {one.version: one for one in node.versions}
        return self._places

    def decoded(self, opened: Opened) -> Iterator[tuple[int, Decoded]]:
        """Of all messages, in runs of at most about TEXT_CHARS_MAX: where each begins, and what is in it."""
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
            text, why = self._decode(kind, value.as_py(), version, key.as_py())
            run.values.append(text)
            run.errors.append(why)
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
            return None, _NOT_OPENED[Kind(kind)]
        if value is None:
            return None, None
        if version is None:
            return None, _NO_VERSION
        found = self._known[version]
        if isinstance(found, str):
            return None, found
        try:
            return _to_json(found.value(value, key)), None
        except UndecodableError as error:
            return None, str(error)


_to_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode

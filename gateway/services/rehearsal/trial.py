"""Decoding of messages with a candidate for their topic's schema, as a consumer with that schema decodes them. Pure
except for the clock that ends it."""

import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.schema.decoding import Decoder, UndecodableError, decoder
from engine.schema.kinds import InvalidSchemaError, Schema
from gateway.services.rehearsal.opening import VERSION, OpenedMessage

TIME_S = 5.0
GROUPS_MAX = 50
SAMPLES_MAX = 5
TEXT_MAX = 4_000
"""Characters after which a shown value is cut."""
_INDEX = re.compile(r"\[\d+\]")

Json = dict[str, Any]


@dataclass(slots=True)
class _Group:
    """Failures of one producer at one field, or messages that were left out for one reason."""

    about: Json
    count: int
    first: OpenedMessage


class Trial:
    """Trial of one candidate. ``stored``: schemas by version; for one that cannot be read, the reason."""

    def __init__(self, candidate: Schema, stored: Mapping[int, Schema | str]) -> None:
        self._candidate = candidate
        self._stored = stored
        self._decoders: dict[int | None, Decoder | InvalidSchemaError] = {}
        self._failures: dict[tuple[object, ...], _Group] = {}
        self._left_out: dict[tuple[str, str], _Group] = {}
        self._samples: dict[tuple[str, int | None], Json] = {}
        self._more_samples: list[Json] = []
        self.decoded = 0
        self.failed = 0
        self.stopped = False
        """True when the time ran out before all messages were tried."""

    def run(self, messages: Sequence[OpenedMessage]) -> None:
        """Try the messages, in a thread; the call lasts at most ``TIME_S`` and the time of one message."""
        deadline = time.monotonic() + TIME_S
        for message in messages:
            if time.monotonic() > deadline:
                self.stopped = True
                return
            self._try(message)

    def _try(self, message: OpenedMessage) -> None:
        if message.content is None:
            self._leave_out(message, message.why, message.reason)
            return
        version = message.version
        written = self._candidate if version is None else self._stored[version]
        if isinstance(written, str):
            self._leave_out(message, VERSION, written)
            return
        candidate_decoder = self._decoders.get(version)
        if candidate_decoder is None:
            candidate_decoder = self._decoders[version] = _decoder_or_error(
                written, self._candidate
            )
        if isinstance(candidate_decoder, InvalidSchemaError):
            self._fail(message, "", str(candidate_decoder), written)
            return
        try:
            value = candidate_decoder.value(message.content, message.key)
        except UndecodableError as error:
            self._fail(message, error.path, error.reason, written)
        else:
            self.decoded += 1
            self._sample(message, value)

    def _fail(self, message: OpenedMessage, path: str, reason: str, written: Schema) -> None:
        self.failed += 1
        key = message.producer, message.version, _INDEX.sub("[]", path)
        group = self._failures.get(key)
        if group is not None:
            group.count += 1
            return
        shows_value = message.version is not None and len(self._failures) < GROUPS_MAX
        about = {
            **dict(zip(("producer", "version", "path"), key, strict=True)),
            "reason": reason,
            "value": _as_written(written, message) if shows_value else None,
        }
        self._failures[key] = _Group(about, 1, message)

    def _leave_out(self, message: OpenedMessage, why: str, reason: str) -> None:
        group = self._left_out.get((why, reason))
        if group is None:
            about = {"why": why, "reason": reason}
            self._left_out[why, reason] = _Group(about, message.messages, message)
        else:
            group.count += message.messages

    def _sample(self, message: OpenedMessage, value: Any) -> None:
        """Keep the message as a sample: the newest of each producer and version first, then others."""
        key = message.producer, message.version
        is_first = key not in self._samples
        if len(self._samples if is_first else self._more_samples) >= SAMPLES_MAX:
            return
        about = {"producer": message.producer, "version": message.version, "value": _text(value)}
        sample = _example(message) | about
        if is_first:
            self._samples[key] = sample
        else:
            self._more_samples.append(sample)

    @property
    def failures(self) -> list[Json]:
        """Groups of failures, the most frequent first."""
        return _as_json(self._failures.values())

    @property
    def left_out(self) -> list[Json]:
        return _as_json(self._left_out.values())

    @property
    def samples(self) -> list[Json]:
        return [*self._samples.values(), *self._more_samples][:SAMPLES_MAX]


def _decoder_or_error(written: Schema, candidate: Schema) -> Decoder | InvalidSchemaError:
    try:
        return decoder(written, candidate)
    except InvalidSchemaError as error:
        return error


def _as_json(groups: Iterable[_Group]) -> list[Json]:
    ordered = sorted(groups, key=lambda group: -group.count)
    return [group.about | {"count": group.count} | _example(group.first) for group in ordered]


def _example(message: OpenedMessage) -> Json:
    return {"id": message.id, "published": message.publish_ms}


def _as_written(written: Schema, message: OpenedMessage) -> str | None:
    """Return the message's value in its own schema version; None when that version cannot decode it either."""
    assert message.content is not None, "only messages with content are tried"
    try:
        return _text(decoder(written).value(message.content, message.key))
    except (UndecodableError, InvalidSchemaError):
        return None


def _text(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, indent=2)
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}…"

"""Messages decoded with a candidate for their topic's schema, as a consumer that has it would. Pure but for the clock
that ends it."""

import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.schema.decoding import Decoder, UndecodableError, decoder
from engine.schema.kinds import InvalidSchemaError, Schema
from gateway.services.rehearsal.opening import VERSION, Found

TIME_S = 5.0
GROUPS_MAX = 50
SAMPLES_MAX = 5
TEXT_MAX = 4_000
"""Characters of a value that is shown."""
_INDEX = re.compile(r"\[\d+\]")

Json = dict[str, Any]


@dataclass(slots=True)
class _Group:
    """Failures of one producer at one field, or messages that were left out for one reason."""

    about: Json
    count: int
    first: Found


class Trial:
    """``stored``: schemas by version, the reason for those that cannot be read."""

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
        """Whether time was over before all were tried."""

    def run(self, messages: Sequence[Found]) -> None:
        """For a thread: it takes at most ``TIME_S`` and one message."""
        until = time.monotonic() + TIME_S
        for one in messages:
            if time.monotonic() > until:
                self.stopped = True
                return
            self._try(one)

    def _try(self, one: Found) -> None:
        if one.content is None:
            self._leave_out(one, one.why, one.reason)
            return
        number = one.version
        written = self._candidate if number is None else self._stored[number]
        if isinstance(written, str):
            self._leave_out(one, VERSION, written)
            return
        made = self._decoders.get(number)
        if made is None:
            made = self._decoders[number] = _made(written, self._candidate)
        if isinstance(made, InvalidSchemaError):
            self._fail(one, "", str(made), written)
            return
        try:
            value = made.value(one.content, one.key)
        except UndecodableError as error:
            self._fail(one, error.path, error.reason, written)
        else:
            self.decoded += 1
            self._sample(one, value)

    def _fail(self, one: Found, path: str, reason: str, written: Schema) -> None:
        self.failed += 1
        key = one.producer, one.version, _INDEX.sub("[]", path)
        group = self._failures.get(key)
        if group is not None:
            group.count += 1
            return
        shown = one.version is not None and len(self._failures) < GROUPS_MAX
        about = {
            **dict(zip(("producer", "version", "path"), key, strict=True)),
            "reason": reason,
            "value": _as_written(written, one) if shown else None,
        }
        self._failures[key] = _Group(about, 1, one)

    def _leave_out(self, one: Found, why: str, reason: str) -> None:
        group = self._left_out.get((why, reason))
        if group is None:
            about = {"why": why, "reason": reason}
            self._left_out[why, reason] = _Group(about, one.messages, one)
        else:
            group.count += one.messages

    def _sample(self, one: Found, value: Any) -> None:
        """The newest of each producer and version come first."""
        key = one.producer, one.version
        is_first = key not in self._samples
        if len(self._samples if is_first else self._more_samples) >= SAMPLES_MAX:
            return
        about = {"producer": one.producer, "version": one.version, "value": _text(value)}
        told = _example(one) | about
        if is_first:
            self._samples[key] = told
        else:
            self._more_samples.append(told)

    @property
    def failures(self) -> list[Json]:
        """The most frequent first."""
        return _told(self._failures.values())

    @property
    def left_out(self) -> list[Json]:
        return _told(self._left_out.values())

    @property
    def samples(self) -> list[Json]:
        return [*self._samples.values(), *self._more_samples][:SAMPLES_MAX]


def _made(written: Schema, candidate: Schema) -> Decoder | InvalidSchemaError:
    try:
        return decoder(written, candidate)
    except InvalidSchemaError as error:
        return error


def _told(groups: Iterable[_Group]) -> list[Json]:
    found = sorted(groups, key=lambda group: -group.count)
    return [group.about | {"count": group.count} | _example(group.first) for group in found]


def _example(one: Found) -> Json:
    return {"id": one.id, "published": one.publish_ms}


def _as_written(written: Schema, one: Found) -> str | None:
    """What a message says by its own version; None when that does not read it either."""
    assert one.content is not None, "it was tried"
    try:
        return _text(decoder(written).value(one.content, one.key))
    except (UndecodableError, InvalidSchemaError):
        return None


def _text(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, indent=2)
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}…"

"""The process of a trial: a function on messages that are there already, which changes nothing.

It has no token, no address of a broker and, where the operating system permits, no network. What the function
publishes, acknowledges, logs and stores is noted for each message, and goes line by line to the parent, so that a
message that never ends leaves what was before it. Its state begins empty; it is not the function's.
"""

import base64
import ctypes
import json
import logging
import os
import resource
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from time import perf_counter
from typing import Any

from engine.base.clock import LoopClock
from engine.base.ids import Position
from engine.base.names import TopicName
from engine.client.consuming.incoming import Incoming, open_entry
from engine.client.message_ids import MessageId
from engine.client.producing.outgoing import OutgoingMessage
from engine.functions.instance.instance_plan import InstancePlan
from engine.functions.instance.process_limits import set_limits
from engine.functions.instance.user.function_context import Callback, FunctionContext
from engine.functions.instance.user.user_code import as_call, code_first
from engine.functions.instance.user.value_codecs import codec_of, input_codec, output_codec
from engine.wire.batches import BatchFormatError, split_entry
from engine.wire.compression import CompressionError

TRIAL_S = 20
"""Seconds that a trial may take, also of a processor."""
RAM_BYTES_MAX = 1 << 30
DISK_BYTES_MAX = 16 << 20
TEXT_MAX = 4000
"""Characters of a value, log line or exception that are shown."""
ROWS_MAX = 100
"""Log lines, publications and changes of the state of a message that are shown."""
UNSHARE_NETWORK, UNSHARE_USER = 0x40000000, 0x10000000


class TrialInput:
    """The topic that messages of a trial are from, in place of a consumer's attachment."""

    def __init__(self, topic: str) -> None:
        self.topic = TopicName.parse(topic)
        partition = self.topic.partition
        self.partition = -1 if partition is None else partition

    def plain_id(self, position: Position) -> bytes:
        """Return the serialized id of a message that is an entry of its own."""
        return MessageId(position, self.partition, -1, 0, None).serialized()


class TrialHost:
    """The effects of a function in a trial: noted, and nothing else (ContextHost, StateAccess, SecretsProvider)."""

    def __init__(self) -> None:
        self.begin()
        self.values: dict[str, bytes] = {}
        self.counters: dict[str, int] = {}
        self.secrets: set[str] = set()

    def begin(self) -> None:
        """Forget what was noted, before the next message."""
        self.publications: list[dict[str, Any]] = []
        self.changes: list[dict[str, Any]] = []
        self.lines: list[str] = []
        self._begun = ""
        self.metrics: dict[str, float] = {}
        self.acknowledged = 0
        self.dropped = 0

    def _note(self, rows: list[Any], row: Any) -> None:
        if len(rows) < ROWS_MAX:
            rows.append(row)
        else:
            self.dropped += 1

    def publish(
        self, topic: str, message: OutgoingMessage, compression: int, callback: Callback | None
    ) -> None:
        row = {"topic": topic, "key": message.key, "value": shown(message.payload)}
        self._note(self.publications, row | {"properties": dict(message.properties or {})})
        if callback is not None:
            callback(None, None)

    def acknowledge(self, topic: str, message_id: tuple[int, int, int, int]) -> None:
        self.acknowledged += 1

    def record(self, metric: str, value: float) -> None:
        self.metrics[metric] = value

    def state(self) -> "TrialHost":
        return self

    def pulsar_client(self) -> Any:
        raise RuntimeError("a trial has no Pulsar client: it has no token and publishes nothing")

    def provide_secret(self, secret_name: str, path_to_secret: Any) -> None:
        """Note a secret that was asked for; a trial has none."""
        self.secrets.add(secret_name)

    def get(self, key: str) -> bytes | None:
        return self.values.get(key)

    def put(self, key: str, value: bytes) -> None:
        self.values[key] = value
        self._note(self.changes, {"key": key, "value": shown(value)})

    def delete(self, key: str) -> None:
        self.values.pop(key, None)
        self._note(self.changes, {"key": key, "value": None})

    def counter(self, key: str) -> int:
        return self.counters.get(key, 0)

    def increment(self, key: str, amount: int) -> None:
        number = self.counters[key] = self.counter(key) + amount
        self._note(self.changes, {"key": key, "value": {"text": str(number)}})

    def delete_counter(self, key: str) -> None:
        self.counters.pop(key, None)
        self._note(self.changes, {"key": key, "value": None})

    @property
    def has_begun_line(self) -> bool:
        """True while the last line that was printed has no end."""
        return bool(self._begun)

    def write(self, text: str) -> int:
        """Note what the function prints, as its standard output, line by line."""
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            self._note(self.lines, line[:TEXT_MAX])
        self._begun = self._begun[:TEXT_MAX]
        return len(text)

    def flush(self) -> None:
        """Do nothing: a line is noted when it ends."""


class TrialLog(logging.Handler):
    """Notes log records as lines."""

    def __init__(self, host: TrialHost) -> None:
        super().__init__()
        self._host = host
        self.setFormatter(logging.Formatter("%(levelname)s %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self._host.write(f"{self.format(record)}\n")


def shown(data: bytes | None) -> dict[str, Any] | None:
    """Return the text or base64 of a value, cut to TEXT_MAX characters; ``bytes`` is its whole size."""
    if data is None:
        return None
    try:
        name, text = "text", data.decode()
    except UnicodeDecodeError:
        name, text = "base64", base64.b64encode(data[:TEXT_MAX]).decode()
    return {name: text[:TEXT_MAX], "bytes": len(data)}


def opened(stored: Sequence[Mapping[str, Any]], limit: int) -> tuple[list[Incoming], int]:
    """Return the last ``limit`` messages of stored entries, in the order of their times, and the number of entries that
    cannot be read here: encrypted, in chunks or damaged."""
    messages: list[Incoming] = []
    unreadable = 0
    for row in stored:
        source = TrialInput(row["topic"])
        position = Position(row["ledger"], row["entry"])
        try:
            _, metadata, packed = split_entry(base64.b64decode(row["stored"]))
            if metadata.marker_type:
                continue
            if metadata.encryption_keys or metadata.num_chunks_from_msg > 1:
                unreadable += 1
                continue
            messages += open_entry(source, position, 0, metadata, packed)
        except (BatchFormatError, CompressionError):
            unreadable += 1
    messages.sort(key=lambda message: (message.publish_ms, message.position, message.batch_index))
    return messages[-limit:], unreadable


def leave_network() -> bool:
    """Have this process without a network, and return whether the operating system permitted it."""
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    return not libc.unshare(UNSHARE_NETWORK) or not libc.unshare(UNSHARE_USER | UNSHARE_NETWORK)


def limit_process(plan: InstancePlan) -> None:
    """Limit memory, files and processor time, whatever the function's own limits are."""
    set_limits(min(plan.ram_bytes or RAM_BYTES_MAX, RAM_BYTES_MAX), DISK_BYTES_MAX)
    resource.setrlimit(resource.RLIMIT_CPU, (TRIAL_S, TRIAL_S + 1))


class MessageTrial:
    """A function and the messages it is tried on. ``write`` gets one row for each as soon as it is over."""

    def __init__(self, plan: InstancePlan, host: TrialHost) -> None:
        self._plan = plan
        self._host = host
        logger = logging.getLogger(plan.name)
        logger.setLevel(logging.INFO)
        self._context = FunctionContext(plan, host, LoopClock(), host, logger)
        output = plan.output
        with code_first(plan.code):
            self._output = output_codec(output) if output.topic else codec_of("", "", {})
            self._call = as_call(plan.class_name)
            self._codecs = {spec.topic: input_codec(plan, spec) for spec in plan.inputs}

    def row(self, message: Incoming) -> dict[str, Any]:
        """Run the function on a message, and return what it did."""
        host = self._host
        host.begin()
        self._context.message = message
        codec = self._codecs.get(str(message.source.topic.partitioned))
        if codec is None:  # the inputs are a pattern
            codec = next(iter(self._codecs.values()))
        error, data = "", None
        began = perf_counter()
        try:
            content = message.content
            result = self._call(None if content is None else codec.decode(content), self._context)
            data = None if result is None else self._output.encode(result)
        except Exception:
            error = traceback.format_exc()[-TEXT_MAX:]
        took_ms = (perf_counter() - began) * 1000
        if host.has_begun_line:
            host.write("\n")
        return self.head(message) | {
            "output": shown(data),
            "publications": host.publications,
            "logs": host.lines,
            "state": host.changes,
            "metrics": host.metrics,
            "acknowledged": host.acknowledged,
            "dropped": host.dropped,
            "error": error,
            "took_ms": round(took_ms, 3),
        }

    @staticmethod
    def head(message: Incoming) -> dict[str, Any]:
        """Return what a row says of the message itself."""
        ledger, entry = message.position
        at = f"{ledger}:{entry}"
        return {
            "topic": message.topic,
            "id": at if message.batch_index < 0 else f"{at}:{message.batch_index}",
            "key": message.key,
            "published_at": message.publish_ms,
            "input": shown(message.content),
        }


def main() -> None:
    """Run a trial: ``{"plan", "entries", "limit"}`` from standard input, one JSON object a line to standard output."""
    given = json.loads(sys.stdin.buffer.read())
    plan = InstancePlan.from_json(json.dumps(given["plan"]))
    results = os.fdopen(os.dup(1), "w", buffering=1)
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)

    def write(row: dict[str, Any]) -> None:
        results.write(json.dumps(row, default=str) + "\n")

    messages, unreadable = opened(given["entries"], given["limit"])
    alone = leave_network()
    limit_process(plan)
    host = TrialHost()
    logging.getLogger().addHandler(TrialLog(host))
    with redirect_stdout(host), redirect_stderr(host):
        try:
            trial = MessageTrial(plan, host)
        except BaseException:
            write({"failed": traceback.format_exc()[-TEXT_MAX:], "logs": host.lines})
        else:
            write({"network": not alone, "unreadable": unreadable})
            for message in messages:
                write({"begun": trial.head(message)})
                write({"message": trial.row(message)})
            write({"done": True, "secrets": sorted(host.secrets)})
    results.flush()
    os._exit(0)

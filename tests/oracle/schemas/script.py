"""Steps of clients and administrators with schemas, played on one side; both sides' answers are compared as lists."""

import base64
import json
import time
import urllib.parse
from collections.abc import Callable, Mapping
from itertools import count, zip_longest
from typing import Any, NamedTuple

from google.protobuf import descriptor_pb2

from engine.schema.kinds import joined
from engine.wire import frames
from engine.wire import pulsar_pb2 as pb
from engine.wire.commands import command_bytes
from tests.oracle.conftest import Side
from tests.support.raw_client import Wire, entry_of

SETTLE_S = 30.0
"""Apache's brokers see a topic's policies after a while."""
ANSWERS = {
    "PRODUCER_SUCCESS",
    "SUCCESS",
    "ERROR",
    "SEND_RECEIPT",
    "SEND_ERROR",
    "LOOKUP_RESPONSE",
    "GET_SCHEMA_RESPONSE",
    "GET_OR_CREATE_SCHEMA_RESPONSE",
}


class Given(NamedTuple):
    """A schema as clients send it; ``text`` is its form in REST when that differs."""

    kind: int
    data: bytes = b""
    properties: Mapping[str, str] = {}
    text: str | None = None

    @property
    def name(self) -> str:
        """The schema type's name in REST."""
        name = str(pb.Schema.Type.Name(self.kind))  # type: ignore[arg-type]
        return _REST_NAMES.get(name, name.upper())

    @property
    def wire(self) -> dict[str, Any]:
        """The schema of the commands that carry one."""
        pairs = [{"key": key, "value": value} for key, value in self.properties.items()]
        kind = pb.Schema.Type.Name(self.kind)  # type: ignore[arg-type]
        return {"name": "s", "type": kind, "schema_data": self.data, "properties": pairs}

    @property
    def payload(self) -> dict[str, Any]:
        """The PostSchemaPayload of REST."""
        text = self.data.decode() if self.text is None else self.text
        return {"type": self.name, "schema": text, "properties": dict(self.properties)}


_REST_NAMES = {
    "None_": "NONE",
    "Bool": "BOOLEAN",
    "KeyValue": "KEY_VALUE",
    "ProtobufNative": "PROTOBUF_NATIVE",
    "LocalDate": "LOCAL_DATE",
    "LocalTime": "LOCAL_TIME",
    "LocalDateTime": "LOCAL_DATE_TIME",
    "AutoConsume": "AUTO_CONSUME",
}
PRIMITIVES = {
    name: Given(pb.Schema.Type.Value(name))
    for name in (
        *("String", "Bool", "Int8", "Int16", "Int32", "Int64", "Float", "Double", "Date", "Time"),
        *("Timestamp", "Instant", "LocalDate", "LocalTime", "LocalDateTime"),
    )
}
STRING, INT32 = PRIMITIVES["String"], PRIMITIVES["Int32"]
BYTES = Given(pb.Schema.None_)
AUTO_CONSUME = Given(pb.Schema.AutoConsume)


def record(*fields: tuple[Any, ...], kind: int = pb.Schema.Avro, name: str = "R") -> Given:
    """Return a schema of a record of (name, type) or (name, type, default)."""
    named = [dict(zip(("name", "type", "default"), field, strict=False)) for field in fields]
    document = {"type": "record", "name": name, "fields": named}
    return Given(kind, json.dumps(document, separators=(",", ":")).encode())


def pair(key: Given, value: Given, encoding: str = "INLINE") -> Given:
    """KEY_VALUE as Java's client sends it."""
    properties = {"kv.encoding.type": encoding}
    for part, given in (("key", key), ("value", value)):
        name = "BYTES" if given.kind == pb.Schema.None_ else given.name
        properties |= {
            f"{part}.schema.name": "",
            f"{part}.schema.type": name,
            f"{part}.schema.properties": "{}",
        }
    text = ",".join(
        f'"{part}":{given.data.decode() or json.dumps("")}'
        for part, given in (("key", key), ("value", value))
    )
    return Given(pb.Schema.KeyValue, joined(key.data, value.data), properties, f"{{{text}}}")


def native(message: str, *fields: tuple[str, str], file: str = "f.proto") -> Given:
    """PROTOBUF_NATIVE of a message of (name, type as in FieldDescriptorProto.Type), numbered from 1."""
    made = descriptor_pb2.FileDescriptorProto(name=file, package="p", syntax="proto3")
    root = made.message_type.add(name=message)
    for number, (name, of) in enumerate(fields, 1):
        root.field.add(
            name=name,
            number=number,
            type=f"TYPE_{of.upper()}",  # type: ignore[arg-type]
            label="LABEL_OPTIONAL",
        )
    files = descriptor_pb2.FileDescriptorSet(file=[made])
    document = {
        "fileDescriptorSet": base64.b64encode(files.SerializeToString()).decode(),
        "rootMessageTypeName": f"p.{message}",
        "rootFileDescriptorName": file,
    }
    return Given(pb.Schema.ProtobufNative, json.dumps(document).encode())


class Script:
    """One side, and what it answered to each step: ``answers``, comparable. ``texts``: what it said with each refusal.

    Producers and consumers stay until ``leave``.
    """

    def __init__(self, side: Side, namespace: str) -> None:
        """``namespace``: ``tenant/namespace``, both made when missing."""
        self.side = side
        self.namespace = namespace
        self.answers: list[tuple[Any, ...]] = []
        self.texts: list[str] = []
        self._ids = count(1)
        port = urllib.parse.urlparse(side.url).port
        assert port is not None
        self._wire = Wire(port, answers_pings=True).open()
        self._found: set[str] = set()
        self._kept: list[tuple[str, int]] = []
        tenant = {"adminRoles": [], "allowedClusters": ["standalone"]}
        assert side.put(f"/admin/v2/tenants/{namespace.partition('/')[0]}", tenant) in (204, 409)
        assert side.put(f"/admin/v2/namespaces/{namespace}") in (204, 409)

    def close(self) -> None:
        self._wire.close()

    def name(self, topic: str) -> str:
        return f"persistent://{self.namespace}/{topic}"

    def say(self, *answer: Any, text: str = "") -> tuple[Any, ...]:
        self.answers.append(answer)
        self.texts.append(text)
        return answer

    # --- as a client -----------------------------------------------------------------------------

    def produce(self, topic: str, given: Given | None) -> tuple[Any, ...]:
        """Attach a producer and return the version, or the refusal's code."""
        number = next(self._ids)
        got = self._ask("producer", topic, given, producer_id=number)
        if got["type"] == "PRODUCER_SUCCESS":
            self._kept.append(("close_producer", number))
            self._last = number
            version = base64.b64decode(got["producer_success"].get("schema_version", "")).hex()
            return self.say("produce", topic, _said(given), version)
        error = got["error"]
        return self.say("produce", topic, _said(given), error["error"], text=error["message"])

    def send(self, value: bytes = b"x", **metadata: Any) -> tuple[Any, ...]:
        """Send one message by the newest producer."""
        command = command_bytes("send", {"producer_id": self._last, "sequence_id": 0})
        self._wire.send(frames.payload_frame(command, entry_of(value, **metadata)))
        got = self._answer()
        error = got.get("send_error", {})
        return self.say("send", got["type"], error.get("error"), text=error.get("message", ""))

    def subscribe(
        self, topic: str, given: Given | None, subscription: str = "s", **more: Any
    ) -> tuple[Any, ...]:
        """Attach a consumer and return "ok", or the refusal's code."""
        number = next(self._ids)
        body = {"consumer_id": number, "subscription": subscription, "subType": "Shared", **more}
        got = self._ask("subscribe", topic, given, **body)
        if got["type"] == "SUCCESS":
            self._kept.append(("close_consumer", number))
            return self.say("subscribe", topic, _said(given), "ok")
        error = got["error"]
        return self.say("subscribe", topic, _said(given), error["error"], text=error["message"])

    def create(self, topic: str, given: Given) -> tuple[Any, ...]:
        """GET_OR_CREATE_SCHEMA."""
        got = self._ask("getOrCreateSchema", topic, given)
        response = got["getOrCreateSchemaResponse"]
        code, text = response.get("error_code"), response.get("error_message", "")
        version = base64.b64decode(response.get("schema_version", "")).hex()
        return self.say("create", topic, _said(given), code or version, text=text)

    def get(self, topic: str, version: bytes | None = None) -> tuple[Any, ...]:
        """GET_SCHEMA."""
        more = {} if version is None else {"schema_version": version}
        got = self._ask("getSchema", topic, None, **more)["getSchemaResponse"]
        schema = (got.get("error_code"), got.get("schema"), got.get("schema_version"))
        return self.say("get", topic, version, *schema, text=got.get("error_message", ""))

    def leave(self) -> None:
        """Close all producers and consumers."""
        for kind, number in self._kept:
            who = kind.removeprefix("close_")
            self._wire.say(kind, **{f"{who}_id": number, "request_id": next(self._ids)})
            assert self._answer()["type"] == "SUCCESS"
        self._kept.clear()

    def _ask(self, command: str, topic: str, given: Given | None, **body: Any) -> dict[str, Any]:
        if topic not in self._found:  # Apache takes a bundle when it is looked up
            self._wire.say("lookupTopic", topic=self.name(topic), request_id=next(self._ids))
            assert self._answer()["type"] == "LOOKUP_RESPONSE"
            self._found.add(topic)
        if given is not None:
            body["schema"] = given.wire
        self._wire.say(command, topic=self.name(topic), request_id=next(self._ids), **body)
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        while True:
            got = self._wire.frame()
            assert got is not None, f"{self.side.name} closed the connection"
            if got["type"] in ANSWERS:
                return got

    # --- as an administrator ---------------------------------------------------------------------

    def rest(self, method: str, path: str, body: Any = None) -> tuple[Any, ...]:
        """Make any call below ``/admin/v2``; the body counts only when the answer is no refusal."""
        status, raw = self.side.call(method, f"/admin/v2/{path}", body)
        answer = _plain(raw) if status < 400 else None
        text = "" if status < 400 else raw.decode(errors="replace")
        return self.say(method, path, status, answer, text=text)

    def schemas(self, method: str, topic: str, what: str, given: Given | None = None) -> Any:
        """Make a call below ``/admin/v2/schemas``."""
        path = f"{self.schemas_path(topic)}/{what}"
        return self.rest(method, path, None if given is None else given.payload)

    def schemas_path(self, topic: str) -> str:
        return f"schemas/{self.namespace}/{urllib.parse.quote(topic, safe='')}"

    def register(self, topic: str, given: Given) -> Any:
        return self.schemas("POST", topic, "schema", given)

    def verdict(self, topic: str, given: Given) -> tuple[Any, ...]:
        """Return whether a candidate may follow, and under which strategy. Apache answers an incompatible one with
        500, a stack trace and no strategy."""
        path = f"{self.schemas_path(topic)}/compatibility"
        status, raw = self.side.call("POST", f"/admin/v2/{path}", given.payload)
        if status == 202:
            answer = json.loads(raw)
            may = answer["compatibility"]
            strategy = answer["schemaCompatibilityStrategy"] if may else None
            text = answer.get("reason", "")
            return self.say("verdict", topic, _said(given), may, strategy, text=text)
        text = raw.decode(errors="replace")
        may = False if status == 500 and "IncompatibleSchemaException" in text else status
        return self.say("verdict", topic, _said(given), may, None, text=text)

    def strategy(self, name: str, *, effective: str = "") -> None:
        """Set the namespace's strategy, and wait until the broker applies it."""
        self.policy("schemaCompatibilityStrategy", name)
        self.wait_for_strategy(effective or name)

    def wait_for_strategy(self, strategy: str) -> None:
        """Wait until the broker judges by it."""
        path = f"/admin/v2/schemas/{self.namespace}/nobody/compatibility"
        wanted = f'"schemaCompatibilityStrategy":"{strategy}"'
        self._until(
            lambda: (
                wanted in self.side.call("POST", path, STRING.payload)[1].decode().replace(" ", "")
            ),
            strategy,
        )

    def policy(self, name: str, value: Any, method: str = "PUT") -> None:
        """Set one of the namespace's."""
        self.rest(method, f"namespaces/{self.namespace}/{name}", value)

    def flag(self, name: str, value: bool, topic: str) -> None:
        """Set one of the namespace's that has to do with producers, and wait until it is so for ``topic``."""
        self.policy(name, value, "POST")
        path = f"/admin/v2/persistent/{self.namespace}/{topic}/{name}?applied=true"
        self._until(lambda: self.side.call("GET", path) == (200, json.dumps(value).encode()), name)

    def make(self, topic: str) -> None:
        self.rest("PUT", f"persistent/{self.namespace}/{topic}")

    def topic_policy(
        self,
        topic: str,
        name: str,
        value: Any,
        method: str = "PUT",
        *,
        shown: Any = None,
        applied: bool = False,
    ) -> None:
        """Set one of a topic's, and wait until it is in force: until it reads as ``shown``, or what is ``applied``
        does."""
        path = f"persistent/{self.namespace}/{topic}/{name}"
        self.rest(method, path, value)
        asked = f"/admin/v2/{path}?applied={str(applied).lower()}"
        wanted = value if shown is None else shown
        self._until(lambda: _plain(self.side.call("GET", asked)[1]) == wanted, path)

    def _until(self, holds: Callable[[], bool], what: str) -> None:
        until = time.monotonic() + SETTLE_S
        while not holds():
            assert time.monotonic() < until, f"{self.side.name}: {what} does not come into force"
            time.sleep(0.05)


def _said(given: Given | None) -> str:
    return "-" if given is None else f"{given.name} {given.text or given.data[:300].decode()}"


def _plain(raw: bytes) -> Any:
    """Return an answer without times and ledger ids."""
    try:
        answer = json.loads(raw)
    except ValueError:
        return raw.decode(errors="replace")
    return json.loads(json.dumps(answer), object_hook=_timeless)


def _timeless(document: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key not in ("timestamp", "ledgerId")}


def beside(
    sides: tuple[Side, Side], namespace: str, play: Callable[[Script], None]
) -> tuple[Script, Script]:
    """Run ``play`` on both sides and compare every answer. Return the scripts of Apache's and ours."""
    played = []
    for side in sides:
        script = Script(side, f"schemas/{namespace}")
        try:
            play(script)
        finally:
            script.close()
        played.append(script)
    theirs, ours = played
    wrong = [
        f"  apache {want} {theirs_text[:200]}\n  ours   {got} {ours_text[:200]}"
        for want, got, theirs_text, ours_text in zip_longest(
            theirs.answers, ours.answers, theirs.texts, ours.texts, fillvalue=""
        )
        if want != got
    ]
    assert not wrong, f"{len(wrong)} of {len(theirs.answers)} answers differ\n" + "\n".join(wrong)
    return theirs, ours

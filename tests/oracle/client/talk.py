"""A conversation with either side, frame by frame, in values that are equal where both behave alike: positions by the
ledger's place in the topic, no request ids, no addresses."""

import itertools
import json
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from engine.base.ids import LATEST
from engine.wire import frames
from engine.wire.batches import Message, pack_entry
from engine.wire.commands import command_bytes
from tests.oracle.conftest import Side
from tests.support.raw_client import Wire

LAST_ANSWERS = {
    *("SUCCESS", "ERROR", "PRODUCER_SUCCESS", "GET_LAST_MESSAGE_ID_RESPONSE"),
    "LOOKUP_RESPONSE",
}
NOTHING = (1 << 64) - 1
EARLIEST_ID = {"ledgerId": NOTHING, "entryId": NOTHING}
LATEST_ID = {"ledgerId": LATEST.ledger_id, "entryId": LATEST.entry_id}
SOON_S = 15.0
"""Limit of the wait for an answer or an expected frame."""
PATIENCE_S = 60.0
"""Limit of the wait for a state."""
_request_ids = itertools.count(1)


def on_both(sides: tuple[Side, Side], story: Callable[[Side], Any]) -> tuple[Any, Any]:
    """Return the results of ``story`` on Apache's side and ours, run at the same time because both mostly wait."""
    with ThreadPoolExecutor(2) as both:
        theirs, ours = both.map(story, sides)
    return theirs, ours


def wait_for(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited {PATIENCE_S} s for {what}"
        time.sleep(0.1)


class Place:
    """A topic of one side, and the ledgers of it that were seen. ``wires``: connections to be closed in the end."""

    def __init__(self, side: Side, topic: str, wires: list[Wire] | None = None) -> None:
        self.side = side
        self.topic = topic
        self.wires: list[Wire] = [] if wires is None else wires
        self.ledgers: list[int] = []

    def partition(self, number: int) -> "Place":
        return Place(self.side, f"{self.topic}-partition-{number}", self.wires)

    def close(self) -> None:
        for wire in self.wires:
            wire.close()

    @property
    def path(self) -> str:
        return f"/admin/v2/{self.topic.replace('://', '/')}"

    def rest(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Return the status, and the body or the reason of a refusal."""
        status, text = self.side.call(method, self.path + path, body)
        try:
            answer = json.loads(text)
        except ValueError:
            return status, ""
        reason = answer.get("reason") if isinstance(answer, dict) else None
        return status, answer if reason is None else reason.replace(self.topic, "T")

    def stats(self, subscription: str) -> Any:
        """Return the statistics of a subscription; None when there is none."""
        topic_stats = self.rest("GET", "/stats?getPreciseBacklog=true")[1]
        return topic_stats["subscriptions"].get(subscription)

    def position_of(self, message_id: dict[str, Any]) -> str:
        """Return a position without the ledger's number."""
        ledger, entry = int(message_id["ledgerId"]), int(message_id["entryId"])
        if ledger == NOTHING:
            return "none"
        if ledger not in self.ledgers:
            self.ledgers = sorted([*self.ledgers, ledger])
        return f"L{self.ledgers.index(ledger)}:{-1 if entry == NOTHING else entry}"

    def publish(self, count: int, *, batch: int = 1, keys: int = 0) -> list[dict[str, int]]:
        """Publish ``count`` entries of ``batch`` messages, with ``keys`` by turns, and return their ids."""
        talk, ids = Talk(self), []
        talk.ask("producer", topic=self.topic, producer_id=1)
        for i in range(count):
            extra = {"partition_key": f"k{i % keys}"} if keys else {}
            now_ms = int(time.time() * 1000)
            entry = pack_entry(
                [Message(b"%d" % i)] * batch, producer_name="raw", publish_ms=now_ms, extra=extra
            )
            body = {"producer_id": 1, "sequence_id": i, "num_messages": batch}
            talk.wire.send(frames.payload_frame(command_bytes("send", body), entry))
            receipt = talk.frame()["send_receipt"]["message_id"]
            self.position_of(receipt)
            ids.append({"ledgerId": int(receipt["ledgerId"]), "entryId": int(receipt["entryId"])})
        talk.wire.close()
        return ids

    def two_ledgers(self) -> list[dict[str, int]]:
        """Five entries in one ledger, three and two batches of four in the next; kept by a subscription ``hold``."""
        Talk(self).subscribe(1, "hold")
        ids = self.publish(5)
        assert self.rest("PUT", "/unload")[0] == 204
        return ids + self.publish(3) + self.publish(2, batch=4)


class Talk:
    """One connection, ready to ask for ``place``'s topic."""

    def __init__(self, place: Place, client: str = "raw") -> None:
        self.place = place
        self.wire = Wire(int(place.side.url.rpartition(":")[2]), answers_pings=True)
        place.wires.append(self.wire)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.wire.patience(SOON_S)
        self.wire.ask("connect", client_version=client, protocol_version=20)
        for _ in range(2):  # the first may choose the owner only
            self.ask("lookupTopic", topic=place.topic)

    @property
    def _socket(self) -> socket.socket:
        return self.wire._socket

    def frame(self) -> dict[str, Any]:
        received = self.wire.frame()
        assert received is not None, "the connection was closed"
        return received

    def ask(self, field: str, **body: Any) -> list[tuple[Any, ...]]:
        """Send a request and return the frames up to its answer."""
        self.wire.say(field, request_id=next(_request_ids), **body)
        out = []
        while True:
            frame = self.frame()
            out.append(self._summary(frame))
            if frame["type"] in LAST_ANSWERS:
                return out

    def subscribe(
        self, consumer_id: int, name: str = "s", kind: int = 0, **body: Any
    ) -> list[tuple[Any, ...]]:
        """Return the answer, without notices of the active consumer: ours arrive sooner than Apache's."""
        body = {"initialPosition": 1, "consumer_name": f"c{consumer_id}", **body}
        topic = self.place.topic
        answers = self.ask(
            "subscribe",
            topic=topic,
            subscription=name,
            subType=kind,
            consumer_id=consumer_id,
            **body,
        )
        return [answer for answer in answers if answer[0] != "ACTIVE_CONSUMER_CHANGE"]

    def flow(self, consumer_id: int, permits: int = 100) -> None:
        self.wire.say("flow", consumer_id=consumer_id, messagePermits=permits)

    def receive_until_quiet(self, quiet_s: float = 1.0) -> list[tuple[Any, ...]]:
        """Return the frames that arrive until there is none for ``quiet_s``."""
        out = []
        self.wire.patience(quiet_s)
        try:
            while True:
                out.append(self._summary(self.frame()))
        except TimeoutError:
            return out
        finally:
            self.wire.patience(SOON_S)

    def _summary(self, frame: dict[str, Any]) -> tuple[Any, ...]:
        kind = frame["type"]
        body = next((frame[name] for name in frame if name != "type"), {})
        match kind:
            case "MESSAGE":
                more = ("redelivery_count", "consumer_epoch")
                counters = {name: body[name] for name in more if body.get(name)}
                return (
                    kind,
                    int(body["consumer_id"]),
                    self.place.position_of(body["message_id"]),
                    counters,
                )
            case "ERROR":
                return kind, body["error"], body["message"].replace(self.place.topic, "T")
            case "GET_LAST_MESSAGE_ID_RESPONSE":
                last, mark = body["last_message_id"], body.get("consumer_mark_delete_position")
                marked = None if mark is None else self.place.position_of(mark)
                return kind, self.place.position_of(last), last["batch_index"], marked
        return kind, *(f"{k}={v}" for k, v in body.items() if k in ("consumer_id", "is_active"))

"""A conversation with either side, frame by frame, told in values that are equal where both do the same: positions by
the ledger's place in the topic, no request ids, no addresses."""

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
"""How long an answer or an expected frame is waited for."""
PATIENCE_S = 60.0
"""How long a state is waited for."""
_request_ids = itertools.count(1)


def on_both(sides: tuple[Side, Side], story: Callable[[Side], Any]) -> tuple[Any, Any]:
    """What Apache's and ours tell, asked at the same time: they wait most of it."""
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
        """Status, and what a body or a refusal says."""
        status, found = self.side.call(method, self.path + path, body)
        try:
            said = json.loads(found)
        except ValueError:
            return status, ""
        reason = said.get("reason") if isinstance(said, dict) else None
        return status, said if reason is None else reason.replace(self.topic, "T")

    def stats(self, subscription: str) -> Any:
        """Of a subscription; None: there is none."""
        found = self.rest("GET", "/stats?getPreciseBacklog=true")[1]
        return found["subscriptions"].get(subscription)

    def told(self, message_id: dict[str, Any]) -> str:
        """A position without the ledger's number."""
        ledger, entry = int(message_id["ledgerId"]), int(message_id["entryId"])
        if ledger == NOTHING:
            return "none"
        if ledger not in self.ledgers:
            self.ledgers = sorted([*self.ledgers, ledger])
        return f"L{self.ledgers.index(ledger)}:{-1 if entry == NOTHING else entry}"

    def publish(self, count: int, *, batch: int = 1, keys: int = 0) -> list[dict[str, int]]:
        """``count`` entries of ``batch`` messages, with ``keys`` by turns; their ids."""
        talk, found = Talk(self), []
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
            self.told(receipt)
            found.append({"ledgerId": int(receipt["ledgerId"]), "entryId": int(receipt["entryId"])})
        talk.wire.close()
        return found

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
        found = self.wire.frame()
        assert found is not None, "the connection was closed"
        return found

    def ask(self, field: str, **body: Any) -> list[tuple[Any, ...]]:
        """What comes up to the answer."""
        self.wire.say(field, request_id=next(_request_ids), **body)
        out = []
        while True:
            frame = self.frame()
            out.append(self._told(frame))
            if frame["type"] in LAST_ANSWERS:
                return out

    def subscribe(
        self, consumer_id: int, name: str = "s", kind: int = 0, **body: Any
    ) -> list[tuple[Any, ...]]:
        """The answer, without notices of who is active: ours come sooner than Apache's."""
        body = {"initialPosition": 1, "consumer_name": f"c{consumer_id}", **body}
        topic = self.place.topic
        found = self.ask(
            "subscribe",
            topic=topic,
            subscription=name,
            subType=kind,
            consumer_id=consumer_id,
            **body,
        )
        return [each for each in found if each[0] != "ACTIVE_CONSUMER_CHANGE"]

    def flow(self, consumer_id: int, permits: int = 100) -> None:
        self.wire.say("flow", consumer_id=consumer_id, messagePermits=permits)

    def heard(self, quiet_s: float = 1.0) -> list[tuple[Any, ...]]:
        """What comes until nothing does for ``quiet_s``."""
        out = []
        self.wire.patience(quiet_s)
        try:
            while True:
                out.append(self._told(self.frame()))
        except TimeoutError:
            return out
        finally:
            self.wire.patience(SOON_S)

    def _told(self, frame: dict[str, Any]) -> tuple[Any, ...]:
        kind = frame["type"]
        body = next((frame[name] for name in frame if name != "type"), {})
        match kind:
            case "MESSAGE":
                more = ("redelivery_count", "consumer_epoch")
                said = {name: body[name] for name in more if body.get(name)}
                return kind, int(body["consumer_id"]), self.place.told(body["message_id"]), said
            case "ERROR":
                return kind, body["error"], body["message"].replace(self.place.topic, "T")
            case "GET_LAST_MESSAGE_ID_RESPONSE":
                last, mark = body["last_message_id"], body.get("consumer_mark_delete_position")
                marked = None if mark is None else self.place.told(mark)
                return kind, self.place.told(last), last["batch_index"], marked
        return kind, *(f"{k}={v}" for k, v in body.items() if k in ("consumer_id", "is_active"))

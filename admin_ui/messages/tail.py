"""The live tail of a topic: WebSocket ``/api/v1/tail?topic=…``.

The conditions are those of the GET of messages; ``rate`` is how many are shown a second. The server sends ``open``
once, then ``rows`` with the counts whenever they changed, four times a second at most. The client sends ``pause`` and
``resume``. Each message counts once: received = shown + filtered + passed_over. A person whose rights or payload rules
change is disconnected; a reader that does not keep up is shown fewer messages, and each of them is counted.
"""

import asyncio
import json
from typing import Any
from urllib.parse import parse_qs

from admin_ui.messages import selectors
from admin_ui.params import Params, number
from engine.auth.actions import Action
from engine.auth.rights import Right
from engine.base.errors import InvalidField, MagnetarError, Unsupported
from engine.base.names import TopicName
from gateway.clusters.cluster import Cluster
from gateway.clusters.registry import clusters_of
from gateway.http.auth.access import authorize
from gateway.http.auth.handshakes import identify_socket
from gateway.http.auth.levels import level_of_socket
from gateway.http.auth.open_socket import OpenSocket
from gateway.http.auth.payloads import check_payloads, is_ruled, record_reveal
from gateway.http.errors import describe
from gateway.http.refusal import refuse
from gateway.http.socket_port import port_of
from gateway.services.browsing.tailing import Tails, TailWatch
from gateway.services.clock import now_ms

RATE_DEFAULT = 20
RATE_MAX = 100
GAP_S = 0.25
"""Shortest time between two messages to the client."""
LOOK_AGAIN_S = 1.0
"""Longest time until a changed payload rule counts."""
CLOSE_REFUSED = 4003
"""The client may not see the messages any more."""
RIGHTS: tuple[Right[TopicName], ...] = (Right(Action.CONSUME, TopicName, lambda topic: topic),)


def tails(cluster: Cluster) -> Tails:
    """Return the tails of a cluster, which are one of its parts. Apache's REST interface returns single entries, too
    slow to follow a topic: there the tail is a reader of the cluster's brokers."""
    is_apache = cluster.settings.apache is not None
    return Tails(cluster.link, (lambda: cluster.client) if is_apache else None)


class LiveTail(OpenSocket):
    """One socket, which shows one topic."""

    async def connect(self) -> None:
        """Accept the socket of a caller that may consume from the topic and see its payloads."""
        self.begin("tail")
        self.watch: TailWatch | None = None
        try:
            # Who calls is asked first: an answer about the parameters is for those who are known.
            identity = self.access.identity = await identify_socket(self.scope)
            given = parse_qs(self.scope["query_string"].decode("latin-1"))
            params: Params = {name: values[-1] for name, values in given.items()}
            self.topic = TopicName.parse(params.get("topic", ""))
            self.cluster = clusters_of(self.scope).named(params.get("cluster", ""))
            await self.access.follow(self.cluster)
            await self._check()
            if not self.topic.persistent:
                raise Unsupported("A non-persistent topic keeps no messages to read")
            wanted = selectors.filter_of(params, given.get("property", []))
            rate = number(params, "rate", RATE_DEFAULT, 1, RATE_MAX)
            if is_ruled(identity, level_of_socket(self.scope)):
                await record_reveal(self.scope, identity, self.cluster.name, [self.topic])
        except (MagnetarError, TimeoutError) as error:
            self.access.close()
            await refuse(self.base_send, *describe(error))
            return
        await self.accept()
        self.watch = self.cluster.part(tails).watch(self.topic, wanted, rate)
        self.tasks.spawn("push", self._push(self.watch))
        self.tasks.spawn("rules", self._look())
        self.follow(identity, self._renew)

    async def _check(self) -> None:
        """Raise Forbidden unless the client may see the topic's messages now."""
        identity = self.access.identity
        await authorize(RIGHTS, self.topic, identity, self.cluster)
        level = level_of_socket(self.scope)
        await check_payloads(clusters_of(self.scope), identity, level, [self.topic])

    async def _renew(self) -> None:
        try:
            await self._check()
        except MagnetarError as error:
            if error.retriable:
                raise
            await self.close(code=CLOSE_REFUSED, reason=str(error)[:120])

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_AGAIN_S)
            await self._renew()

    async def disconnect(self, code: int) -> None:
        """End the work of a socket that is closed."""
        await self.end()
        if self.watch is not None:
            await self.watch.end()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Pause or resume; answer anything else with an error."""
        if self.watch is None:
            return
        match text_data:
            case '{"op":"pause"}' | '{"op":"resume"}':
                self.watch.paused = "pause" in text_data
                self.watch.wake.set()
            case _:
                error = InvalidField("message", 'must be {"op":"pause"} or {"op":"resume"}')
                self._send({"op": "error", "reason": str(error)})

    async def _push(self, watch: TailWatch) -> None:
        """Send what changed. Messages wait while the client does not read, up to a bound, and are then passed over."""
        tail, port = watch.tail, port_of(self.scope)
        is_open = False
        while True:
            await watch.wake.wait()
            watch.wake.clear()
            await port.drained()
            if not is_open and tail.since_ms is not None:
                is_open = True
                self._send({"op": "open", "since": now_ms(), "partitions": tail.partitions})
            rows = watch.take()
            # In a thread: a value may be a megabyte to decode.
            shown = await asyncio.to_thread(
                lambda rows: [
                    selectors.row_of(self.topic, part, message, tail.values)
                    for part, message in rows
                ],
                rows,
            )
            body = {
                "op": "rows",
                "at": now_ms(),
                "rows": shown,
                "received": watch.received - watch.waiting,
                "shown": watch.shown,
                "filtered": watch.filtered,
                "passed_over": watch.passed_over,
                "paused": watch.paused,
                "behind_ms": tail.behind_ms,
                "problem": tail.problem or None,
            }
            self._send(body)
            await asyncio.sleep(GAP_S)

    def _send(self, body: dict[str, Any]) -> None:
        port_of(self.scope).send_text(json.dumps(body, separators=(",", ":")))

"""Prometheus text of the gateway and of every broker as one document, each family described once."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from engine.net.http_client import HttpClient, HttpError
from engine.net.network import LoopNetwork
from gateway.services.engine_link import Engine

if TYPE_CHECKING:
    from engine.admin.client import BrokerAddress

BROKER_TIMEOUT_S = 5.0
BROKER_BYTES_MAX = 1 << 30
LINES_A_TURN = 2_000

disable_created_metrics()  # type: ignore[no-untyped-call]
registry = CollectorRegistry()
ProcessCollector(registry=registry)
brokers_up = Gauge(
    "magnetar_gateway_broker_up",
    "Whether a broker that is listed answered with its families when they were last asked for: 1, else 0.",
    ["broker"],
    registry=registry,
)
requests = Counter(
    "magnetar_gateway_requests",
    "HTTP requests answered, by method and status.",
    ["method", "status"],
    registry=registry,
)


async def document(engine: Engine) -> list[bytes]:
    """The families of the gateway and of every broker that answers, in pieces of one text; which do not answer,
    ``magnetar_gateway_broker_up`` says.

    Raises what the metadata store raises: without the list of brokers nothing would be told of their silence.
    """
    texts = await _of_brokers(engine)
    brokers_up.clear()
    for broker, text in texts.items():
        brokers_up.labels(broker).set(text is not None)
    own = generate_latest(registry)
    return await merge(
        {"gateway": own, **{b: text for b, text in texts.items() if text is not None}}
    )


async def _of_brokers(engine: Engine) -> dict[str, bytes | None]:
    """Each broker's metrics text by broker id; None of one that does not answer."""
    brokers = await engine.admin.brokers()
    client = HttpClient(
        LoopNetwork(), timeout_s=BROKER_TIMEOUT_S, answer_bytes_max=BROKER_BYTES_MAX
    )

    async def ask(broker: "BrokerAddress") -> bytes | None:
        try:
            answer = await client.request("GET", f"{broker.rpc_url}/metrics")
        except (HttpError, ValueError):  # ValueError: its record has no address
            return None
        return answer.body if answer.status == 200 else None

    try:
        texts = await asyncio.gather(*(ask(broker) for broker in brokers))
    finally:
        client.close()
    return {broker.id: text for broker, text in zip(brokers, texts, strict=True)}


async def merge(texts: Mapping[str, bytes]) -> list[bytes]:
    """One exposition, in pieces, out of several by source. Samples of a family that more than one source has get
    ``node="source"``, so that no two series are the same. A family without samples (no topic is loaded) is described
    all the same. Every family of a source must have its HELP or TYPE. Others have their turn in between; cancel-safe.
    """
    heads: dict[bytes, bytes] = {}
    samples: dict[bytes, list[tuple[str, bytes]]] = {}
    for source, text in texts.items():
        for family, head, body in _families(text):
            heads.setdefault(family, head)
            if body:
                samples.setdefault(family, []).append((source, body))
        await asyncio.sleep(0)
    pieces: list[bytes] = []
    for family, head in heads.items():
        pieces.append(head)
        found = samples.get(family, [])
        for source, body in found:
            if len(found) == 1:
                pieces.append(body)
                continue
            lines = body.split(
                b"\n"
            )  # nothing else ends a line: a label may hold a carriage return
            label = b'node="%b"' % source.encode()
            for start in range(0, len(lines), LINES_A_TURN):
                run = lines[start : start + LINES_A_TURN]
                pieces.append(b"".join([_labelled(line, label) for line in run]))
                await asyncio.sleep(0)
    return pieces


def _families(text: bytes) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Name, description and samples of each, as whole lines."""
    at = 0
    while at < len(text):
        name, begin = b"", at
        while text.startswith(b"# ", at):
            end = text.find(b"\n", at) + 1 or len(text)
            words = text[at:end].split(None, 3)
            if len(words) > 2 and words[1] in (b"HELP", b"TYPE"):
                if name and words[2] != name:
                    break
                name = words[2]
            at = end
        stop = text.find(b"\n# ", max(at - 1, 0)) + 1 or len(text)
        yield name, text[begin:at], text[at:stop]
        at = stop


def _labelled(line: bytes, label: bytes) -> bytes:
    """A sample's line with one more label; nothing of an empty line."""
    brace = line.rfind(b"}")
    if brace >= 0:
        comma = b"" if line[brace - 1 : brace] == b"{" else b","
        return b"%b%b%b%b\n" % (line[:brace], comma, label, line[brace:])
    name, _, value = line.partition(b" ")
    return b"%b{%b} %b\n" % (name, label, value) if name else b""

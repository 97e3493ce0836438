"""Prometheus text of the gateway and of all brokers as one document, in which each family is described once."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from django.conf import settings
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
    "Whether a registered broker answered the last request for its metrics: 1, else 0.",
    ["broker"],
    registry=registry,
)
unusable_files = Gauge(
    "magnetar_gateway_secret_file_unusable",
    "1 while a changed file of keys or users cannot be used, and its former contents serve.",
    ["setting"],
    registry=registry,
)
requests = Counter(
    "magnetar_gateway_requests",
    "HTTP requests answered, by method and status.",
    ["method", "status"],
    registry=registry,
)


async def document(engine: Engine) -> list[bytes]:
    """Return the families of the gateway and of every broker that answers, as pieces of one text.
    ``magnetar_gateway_broker_up`` is 0 for a broker that does not answer.

    Raises what the metadata store raises: without the list of brokers a missing one would not be reported.
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
    """Return each broker's metrics text by broker id; None for one that does not answer."""
    brokers = await engine.admin.brokers()
    client = HttpClient(
        LoopNetwork(),
        timeout_s=BROKER_TIMEOUT_S,
        answer_bytes_max=BROKER_BYTES_MAX,
        tls=settings.BROKER_CLIENT.tls(),
    )

    async def fetch(broker: "BrokerAddress") -> bytes | None:
        try:
            answer = await client.request("GET", f"{broker.rpc_url}/metrics")
        except (HttpError, ValueError):  # ValueError: its record has no address
            return None
        return answer.body if answer.status == 200 else None

    try:
        texts = await asyncio.gather(*(fetch(broker) for broker in brokers))
    finally:
        client.close()
    return {broker.id: text for broker, text in zip(brokers, texts, strict=True)}


async def merge(texts: Mapping[str, bytes]) -> list[bytes]:
    """Merge expositions by source into one, returned in pieces.

    Samples of a family that several sources have get the label ``node="source"``, so that no two series are the same. A
    family without samples (no topic is loaded) is described, too. Every family of a source must have a HELP or TYPE
    line. Yields to other tasks meanwhile; cancel-safe.
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
        bodies = samples.get(family, [])
        for source, body in bodies:
            if len(bodies) == 1:
                pieces.append(body)
                continue
            # Not splitlines(): a label may contain a carriage return, which ends no line of the format.
            lines = body.split(b"\n")
            label = b'node="%b"' % source.encode()
            for start in range(0, len(lines), LINES_A_TURN):
                run = lines[start : start + LINES_A_TURN]
                pieces.append(b"".join([_labelled(line, label) for line in run]))
                await asyncio.sleep(0)
    return pieces


def _families(text: bytes) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Yield the name, description and samples of each family, as whole lines."""
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
    """Return a sample's line with one more label; nothing for an empty line."""
    brace = line.rfind(b"}")
    if brace >= 0:
        comma = b"" if line[brace - 1 : brace] == b"{" else b","
        return b"%b%b%b%b\n" % (line[:brace], comma, label, line[brace:])
    name, _, value = line.partition(b" ")
    return b"%b{%b} %b\n" % (name, label, value) if name else b""

"""Prometheus text of the gateway and of every broker as one document, each family described once."""

import asyncio
import re
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
SAMPLE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?( .*)$")
SUFFIXES = ("_total", "_bucket", "_sum", "_count", "_created", "_info")

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


async def document(engine: Engine) -> str:
    """The families of the gateway and of every broker that answers; which do not, ``magnetar_gateway_broker_up`` says.

    Raises what the metadata store raises: without the list of brokers nothing would be told of their silence.
    """
    texts = await _of_brokers(engine)
    brokers_up.clear()
    for broker, text in texts.items():
        brokers_up.labels(broker).set(text is not None)
    own = generate_latest(registry).decode()
    return merge({"gateway": own, **{b: text for b, text in texts.items() if text is not None}})


async def _of_brokers(engine: Engine) -> dict[str, str | None]:
    """Each broker's metrics text by broker id; None of one that does not answer."""
    brokers = await engine.admin.brokers()
    client = HttpClient(LoopNetwork(), timeout_s=BROKER_TIMEOUT_S)

    async def ask(broker: "BrokerAddress") -> str | None:
        try:
            answer = await client.request("GET", f"{broker.rpc_url}/metrics")
        except (HttpError, ValueError):  # ValueError: its record has no address
            return None
        return answer.body.decode(errors="replace") if answer.status == 200 else None

    try:
        texts = await asyncio.gather(*(ask(broker) for broker in brokers))
    finally:
        client.close()
    return {broker.id: text for broker, text in zip(brokers, texts, strict=True)}


def merge(texts: dict[str, str]) -> str:
    """One exposition out of several by source. Samples of a family that more than one source has get ``node="source"``,
    so that no two series are the same. A family without samples (no topic is loaded) is described all the same."""
    heads: dict[str, list[str]] = {}
    samples: dict[str, list[tuple[str, str]]] = {}
    for source, text in texts.items():
        family = ""
        fresh: set[str] = set()
        for line in text.splitlines():
            if line.startswith(("# HELP ", "# TYPE ")):
                family = line.split(" ", 3)[2]
                if family not in heads:
                    heads[family] = []
                    fresh.add(family)
                if family in fresh:
                    heads[family].append(line)
            elif line and not line.startswith("#"):
                found = SAMPLE.match(line)
                if found is not None:
                    samples.setdefault(_family(found[1], family, heads), []).append((source, line))
    lines: list[str] = []
    for family in {**heads, **samples}:
        found_samples = samples.get(family, [])
        lines.extend(heads.get(family, []))
        shared = len({source for source, _ in found_samples}) > 1
        lines.extend(_labelled(line, source) if shared else line for source, line in found_samples)
    return "\n".join(lines) + "\n"


def _family(name: str, present: str, heads: dict[str, list[str]]) -> str:
    if name in heads or not present:
        return name
    is_of_present = name.startswith(present) and name[len(present) :] in (*SUFFIXES, "")
    return present if is_of_present else name


def _labelled(line: str, source: str) -> str:
    found = SAMPLE.match(line)
    assert found is not None
    labels = f'{found[2]},node="{source}"' if found[2] else f'node="{source}"'
    return f"{found[1]}{{{labels}}}{found[3]}"

"""All built-in connectors, by name. Their libraries are imported when one is opened."""

from collections.abc import Mapping
from typing import Any

from engine.base.errors import UnusableField
from engine.functions.connectors.built_in import BuiltIn, ConnectorEnd
from engine.functions.connectors.files.files_sink import FILES
from engine.functions.connectors.generator import GENERATOR
from engine.functions.connectors.kafka.kafka_source import KAFKA
from engine.functions.connectors.objects.objects_connector import OBJECTS
from engine.functions.connectors.postgres.postgres_connector import POSTGRES
from engine.functions.connectors.redis_server.redis_source import REDIS
from engine.functions.connectors.spi import Sink, Source
from engine.functions.connectors.webhooks.webhook_sink import HTTP

SCHEME = "builtin://"
"""Begins the ``archive`` of a built-in connector."""
CATALOGUE: Mapping[str, BuiltIn] = {
    known.name: known for known in (GENERATOR, FILES, HTTP, POSTGRES, REDIS, OBJECTS, KAFKA)
}


def source_end(name: str) -> ConnectorEnd[Source]:
    """Return the source of a built-in connector. Raises UnusableField."""
    known = CATALOGUE.get(name.removeprefix(SCHEME))
    if known is None or known.source is None:
        raise _unknown("source", name)
    return known.source


def sink_end(name: str) -> ConnectorEnd[Sink]:
    """Return the sink of a built-in connector. Raises UnusableField."""
    known = CATALOGUE.get(name.removeprefix(SCHEME))
    if known is None or known.sink is None:
        raise _unknown("sink", name)
    return known.sink


def definitions() -> list[dict[str, Any]]:
    """Return the catalogue as Pulsar's list of ConnectorDefinition."""
    return [
        {
            "name": known.name,
            "description": known.description,
            "sourceClass": _class_of(known.source),
            "sinkClass": _class_of(known.sink),
            "sourceConfigClass": None,
            "sinkConfigClass": None,
        }
        for known in CATALOGUE.values()
    ]


def _class_of(end: ConnectorEnd[Any] | None) -> str | None:
    return None if end is None else f"{end.create.__module__}.{end.create.__qualname__}"


def _unknown(kind: str, name: str) -> UnusableField:
    names = [known.name for known in CATALOGUE.values() if getattr(known, kind) is not None]
    return UnusableField("archive", f"no built-in {kind} {name!r}; there are: {', '.join(names)}")

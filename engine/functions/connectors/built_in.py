"""The declaration of a built-in connector: its two ends, each with settings and a stated guarantee."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from engine.functions.connectors.connector_settings import Schema
from engine.functions.connectors.spi import Sink, Source

End = TypeVar("End", Source, Sink)
Promise = Literal["at least once", "effectively once"]


@dataclass(frozen=True, slots=True)
class ConnectorEnd(Generic[End]):
    """The source or the sink of a connector. ``promise`` is the strongest guarantee it keeps, ``condition`` when.

    ``several``: whether more than one instance may run, which then share the work.
    """

    create: Callable[[], End]
    settings: Schema
    promise: Promise
    condition: str
    several: bool = True


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """A connector by the name that follows ``builtin://``. ``needs``: the extra with its libraries, if any."""

    name: str
    description: str
    source: ConnectorEnd[Source] | None = None
    sink: ConnectorEnd[Sink] | None = None
    needs: str = ""

"""One cluster as this process serves it."""

from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar

from engine.base.errors import Unsupported
from engine.client.client import PulsarClient
from gateway.apache.clients import client_of_apache
from gateway.clusters.acting_clients import ActingClient, ActingClients
from gateway.environment import ClusterSettings
from gateway.services.clients import client_of
from gateway.services.collection.collector import Collector
from gateway.services.engine_link import EngineLink
from gateway.services.history.readings import History
from gateway.services.history.recorder import Recorder
from gateway.services.publishing import Publisher
from gateway.services.source import Ability

P = TypeVar("P", bound="Parts")
T = TypeVar("T")


class Parts:
    """The owner of parts that other modules define: state that they hold for a cluster, or for the process."""

    def __init__(self) -> None:
        self._parts: dict[Callable[[Any], Any], Any] = {}

    def part(self: P, make: Callable[[P], T]) -> T:
        """Return ``make(self)``, made at the first call with this ``make``. For any thread."""
        part: T | None = self._parts.get(make)
        if part is None:
            made: T = self._parts.setdefault(make, make(self))
            return made
        return part


class Cluster(Parts):
    """The link to a cluster, its figures, its history, and the client of its brokers, of which there is one each.

    ``client`` and ``publisher`` belong to the event loop on which they are first used. Selectors, feeds and views
    receive the cluster as an argument; nothing here is found without it.
    """

    def __init__(self, settings: ClusterSettings, link: EngineLink) -> None:
        super().__init__()
        self.settings = settings
        self.name = settings.name
        self.link = link
        self.collector = Collector(link)
        self.history = History(settings.folder)

    def require(self, ability: Ability) -> None:
        """Raise Unsupported, with the reason, for what cannot be done at the cluster's source."""
        reason = self.link.source.lacks.get(ability)
        if reason is not None:
            raise Unsupported(f"{reason} (cluster {self.name})")

    @cached_property
    def clients(self) -> ActingClients:
        """The clients that act for callers, by role; without one it is ``client``. Brokers of an Apache Pulsar know the
        console's role alone: callers are judged by the gateway before."""
        return ActingClients(self._acting, names_roles=self.settings.apache is None)

    def _acting(self, principal: str) -> ActingClient:
        if not principal:
            return ActingClient(self.client, self.publisher)
        client = client_of(self.link, principal)
        return ActingClient(client, Publisher(client))

    @cached_property
    def client(self) -> PulsarClient:
        """The Pulsar client of the WebSocket endpoints, of REST and of the console."""
        apache = self.settings.apache
        return client_of(self.link) if apache is None else client_of_apache(apache, self.link)

    @cached_property
    def publisher(self) -> Publisher:
        """The producers of REST requests."""
        return Publisher(self.client)

    def record_history(self) -> None:
        """Collect and record figures for the life of the process, in the cluster's folder, which exists; called before
        or while the link's loop runs."""
        self.collector.recall = self.history.last_figures
        self.collector.recall_causes = self.history.last_causes
        self.link.start(Recorder(self.settings.folder, self.collector).run)

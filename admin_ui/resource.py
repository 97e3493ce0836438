"""The parts of a console resource. ``admin_ui.resources`` lists all resources; nothing else names them."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from admin_ui.calls import Body, ConsoleView
from admin_ui.feeds import Channel
from gateway.clusters.cluster import Cluster


@dataclass(frozen=True, slots=True)
class Resource:
    """One page of the console, as far as the gateway serves it.

    ``routes``: views by path below ``/api/v1/``, or below ``/api/v1/clusters/<cluster>/`` for a ``ClusterView``.
    ``beat`` makes the message that every live socket of a cluster receives without a subscription; called with True, it
    waits a short time for a change.
    """

    routes: dict[str, type[ConsoleView]]
    channels: tuple[Channel, ...] = ()
    beat: Callable[[Cluster, bool], Awaitable[Body]] | None = None

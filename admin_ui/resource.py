"""What a resource of the console brings along. ``admin_ui.resources`` lists them all; nothing else names them."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from admin_ui.calls import Body, ConsoleView
from admin_ui.feeds import Channel


@dataclass(frozen=True, slots=True)
class Resource:
    """``routes``: views by path below ``/api/v1/``, or below ``/api/v1/clusters/<cluster>/`` for a ``ClusterView``.
    ``opened`` is called whenever a page of the console connects, and does not block. ``beat`` makes what every live
    socket is told without asking; with True it waits for news, not long."""

    routes: dict[str, type[ConsoleView]]
    channels: tuple[Channel, ...] = ()
    opened: Callable[[], None] | None = None
    beat: Callable[[bool], Awaitable[Body]] | None = None

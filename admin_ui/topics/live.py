"""The channels of topics: the window of the list that is on screen, and one topic."""

from collections.abc import Callable
from typing import Any

from admin_ui.feeds import Channel, snapshot_body
from admin_ui.params import Params
from admin_ui.rights import PLACE, WATCH_TOPIC, topic_at
from admin_ui.topics import selectors
from engine.auth.rights import AUTHENTICATED
from engine.auth.viewer import Viewer
from gateway.clusters.cluster import Cluster
from gateway.http.bodies import JsonText

ROWS_MAX = 200


class TopicRows:
    """The basis of a window: what its rows show. Changes of subscriptions, twice as many, are not among it."""

    def __init__(self, cluster: Cluster) -> None:
        self._collector = cluster.collector
        self._history = cluster.history

    @property
    def version(self) -> object:
        """A value that changes whenever the rows do, times left out."""
        version = self._collector.version_of_topics
        return None if version is None else (version, self._history.trends_version)

    def watch(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call ``changed`` when the version may differ by more than trends, which are shown with the next change or
        after a second; return a function that ends this."""
        return self._collector.watch(changed)


async def _window(viewer: Viewer, cluster: Cluster, params: Params) -> JsonText:
    return await selectors.topics(viewer, cluster, params, limit_max=ROWS_MAX, is_pushed=True)


async def _topic(viewer: Viewer, cluster: Cluster, params: Params) -> dict[str, Any]:
    name = topic_at(params)
    return await cluster.collector.read(
        lambda engine: selectors.topic(cluster, engine, name), topic=str(name)
    )


TOPICS_CHANNEL = Channel(
    "topics",
    snapshot_body(_window),
    AUTHENTICATED,
    required=("cluster",),
    optional=(
        "q",
        "tenant",
        "namespace",
        "domain",
        "attention",
        "older_s",
        "sort",
        "offset",
        "limit",
    ),
    basis=TopicRows,
)
TOPIC_CHANNEL = Channel("topic", _topic, WATCH_TOPIC, required=("cluster", *PLACE))

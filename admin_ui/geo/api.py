"""REST of the links between clusters."""

from django.http import HttpRequest, HttpResponse

from admin_ui.calls import (
    WINDOW,
    Call,
    ClusterView,
    ConsoleView,
    Parameter,
    SnapshotView,
    query,
)
from admin_ui.geo import selectors, shapes
from engine.auth.rights import AUTHENTICATED, SUPERUSER
from gateway.clusters.registry import clusters_for
from gateway.http.auth.access import viewer_of
from gateway.http.bodies import json_answer


class GeoOfAllView(ConsoleView):
    """The ends of links that each cluster of this gateway has, as far as the caller may see them."""

    read_rights = AUTHENTICATED
    calls = {"get": Call("getGeoOfAll", shapes.GeoOfAllAnswer)}

    async def get(self, request: HttpRequest) -> HttpResponse:
        clusters = clusters_for(request)
        viewers = [await viewer_of(self.identity, cluster) for cluster in clusters]
        pairs = zip(viewers, clusters, strict=True)
        rows = [await selectors.ends(viewer, cluster) for viewer, cluster in pairs]
        return json_answer({"clusters": rows})


class GeoView(SnapshotView):
    """The ends of links that this cluster has: what it sends to each other cluster, and what it receives. The other
    ends are in the answers of those clusters."""

    read_rights = SUPERUSER
    calls = {"get": Call("getGeo", shapes.GeoAnswer)}
    selector = selectors.geo


class LinkView(ClusterView):
    """A link and a window of the topics on it that are seen: who is behind, and why."""

    read_rights = AUTHENTICATED
    calls = {
        "get": Call(
            "getLink",
            shapes.LinkAnswer,
            parameters=(
                Parameter("remote", "the cluster that topics are sent to", place="path"),
                Parameter("q", "words that the topic's name has, in any case and order"),
                Parameter("cause", "why a topic is not sent, as in the rows; exact"),
                Parameter("all", "1: also topics that are not behind"),
                Parameter(
                    "sort",
                    f"one of {', '.join(selectors.SORTS)}, with '-' for descending;"
                    f" {selectors.DEFAULT_SORT} without it",
                ),
                *WINDOW,
            ),
            errors=(400, 404),
        )
    }

    async def get(self, request: HttpRequest, remote: str) -> HttpResponse:
        params = query(request) | {"remote": remote}
        viewer, cluster = self.viewer, self.cluster
        return json_answer(
            await cluster.link.on_loop(lambda: selectors.link(viewer, cluster, params))
        )

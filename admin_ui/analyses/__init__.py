"""The analyses that can be launched, and their runs, which ``gateway.jobs`` executes."""

from admin_ui.analyses.api import AnalysesView, CancelRunView, DownloadView, RunsView, RunView
from admin_ui.analyses.live import RUN_CHANNEL
from admin_ui.resource import Resource
from gateway.clusters.registry import Clusters
from gateway.jobs.services import Warming


def _warm(clusters: Clusters) -> None:
    clusters.part(Warming).request()


ANALYSES = Resource(
    routes={
        "analyses": AnalysesView,
        "runs": RunsView,
        "runs/<str:run_id>": RunView,
        "runs/<str:run_id>/cancel": CancelRunView,
        "runs/<str:run_id>/downloads/<str:name>": DownloadView,
    },
    channels=(RUN_CHANNEL,),
    opened=_warm,  # saves the first run the start; that run reports a failure
)

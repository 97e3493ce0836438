"""The analyses that can be launched, and their runs, which ``gateway.jobs`` executes."""

from admin_ui.analyses.api import (
    AnalysesView,
    CancelRunView,
    DownloadView,
    RunsView,
    RunView,
    SparkView,
)
from admin_ui.analyses.live import RUN_CHANNEL
from admin_ui.resource import Resource

ANALYSES = Resource(
    routes={
        "analyses": AnalysesView,
        "spark": SparkView,
        "runs": RunsView,
        "runs/<str:run_id>": RunView,
        "runs/<str:run_id>/cancel": CancelRunView,
        "runs/<str:run_id>/downloads/<str:name>": DownloadView,
    },
    channels=(RUN_CHANNEL,),
)

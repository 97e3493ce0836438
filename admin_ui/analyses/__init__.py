"""The analyses that can be launched, their runs, which ``gateway.jobs`` executes, and their schedules."""

from admin_ui.analyses.api import (
    AnalysesView,
    CancelRunView,
    EstimateView,
    PinView,
    RunsView,
    RunView,
    SparkView,
)
from admin_ui.analyses.live import RUN_CHANNEL
from admin_ui.analyses.results_api import ComparisonView, DownloadView, RunLogView, ScriptView
from admin_ui.analyses.schedules_api import SchedulesView, ScheduleView
from admin_ui.resource import Resource

ANALYSES = Resource(
    routes={
        "analyses": AnalysesView,
        "analyses/<str:analysis>/estimate": EstimateView,
        "spark": SparkView,
        "runs": RunsView,
        "runs/<str:run_id>": RunView,
        "runs/<str:run_id>/cancel": CancelRunView,
        "runs/<str:run_id>/pin": PinView,
        "runs/<str:run_id>/compare/<str:other>": ComparisonView,
        "runs/<str:run_id>/log": RunLogView,
        "runs/<str:run_id>/script": ScriptView,
        "runs/<str:run_id>/downloads/<str:name>": DownloadView,
        "schedules": SchedulesView,
        "schedules/<str:schedule_id>": ScheduleView,
    },
    channels=(RUN_CHANNEL,),
)

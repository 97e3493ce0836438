"""Routes of analyses and runs below ``/api/v1/``."""

from django.urls import path

from gateway.jobs import api

urlpatterns = [
    path("analyses", api.Analyses.as_view()),
    path("runs", api.Runs.as_view()),
    path("runs/<str:run_id>", api.Run.as_view()),
    path("runs/<str:run_id>/cancel", api.CancelRun.as_view()),
    path("runs/<str:run_id>/downloads/<str:name>", api.Download.as_view()),
]

"""The console's routes: its API, and the page for every route of the front end."""

from django.urls import include, path, re_path

from admin_ui import api, views

TOPIC = "topics/<seg:domain>/<seg:tenant>/<seg:namespace>/<seg:topic>"

api_patterns = [
    path("schema", views.schema),
    path("environment", api.EnvironmentView.as_view()),
    path("overview", api.OverviewView.as_view()),
    path("overview/history", api.HistoryView.as_view()),
    path("topics", api.TopicsView.as_view()),
    path(TOPIC, api.TopicView.as_view()),
    path(f"{TOPIC}/subscriptions/<seg:subscription>/skip-all", api.SkipAllView.as_view()),
    path(f"{TOPIC}/subscriptions/<seg:subscription>/skip", api.SkipView.as_view()),
    path(f"{TOPIC}/subscriptions/<seg:subscription>/reset", api.ResetView.as_view()),
    path("audit", api.AuditView.as_view()),
    path("views", api.ViewsView.as_view()),
    path("views/<number:view_id>", api.SavedViewView.as_view()),
]

urlpatterns = [
    path("api/v1/", include(api_patterns)),
    path("", views.page),
    re_path(r"^(?:c|analyses|changes|audit|alerts|views|settings)(?:/.*)?$", views.page),
]

"""Routes of the gateway: includes only."""

from django.urls import include, path

from gateway import paths as _converters  # noqa: F401 - registers the path converters
from gateway.rest import errors

urlpatterns = [
    path("", include("gateway.rest.urls")),
    path("api/v1/", include("gateway.jobs.urls")),
    path("", include("admin_ui.urls")),
]

handler404 = errors.not_found
handler500 = errors.server_error

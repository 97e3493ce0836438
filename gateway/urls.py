"""HTTP routes of the gateway: those of REST and of installed apps, and the paths of WebSocket endpoints."""

from django.http import HttpRequest, HttpResponse
from django.urls import include, path, re_path

from gateway.http import container, errors
from gateway.http import paths as _converters  # noqa: F401 - registers the path converters
from gateway.http.auth.access import public
from gateway.http.installed import app_attributes
from gateway.http.static_files import documentation


@public
async def _only_websockets(request: HttpRequest) -> HttpResponse:
    """Answer plain HTTP on the path of an endpoint of ``gateway.ws``."""
    return container.empty(405)


urlpatterns = [
    path("", include("gateway.rest.urls")),
    re_path(
        r"^(?:clusters/[^/]+/)?ws/(?:(?:v2/)?(?:producer|consumer|reader)|v3/consumer)/",
        _only_websockets,
    ),
    re_path(r"^docs(?:/|$)", documentation),
    *(path("", include(routes)) for routes in app_attributes("http_routes")),
    path("clusters/<seg:served_cluster>/", include("gateway.rest.urls")),
]

handler404 = errors.not_found
handler500 = errors.server_error

"""REST of saved views."""

from typing import Any

from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from admin_ui.calls import Call, ConsoleView, Parameter, actor_of, checked
from admin_ui.models import SavedView
from admin_ui.saved_views import services, shapes
from gateway.http.bodies import no_content


def _row(view: SavedView) -> dict[str, Any]:
    return {
        "id": str(view.pk),
        "name": view.name,
        "resource": view.resource,
        "query": view.query,
        "created_at": view.created_at_ms,
    }


class ViewsView(ConsoleView):
    """The user's saved views."""

    calls = {
        "get": Call("listViews", shapes.ViewsAnswer, (Parameter("resource", "exact"),)),
        "post": Call(
            "saveView",
            shapes.ViewRow,
            body=shapes.ViewBody,
            success=201,
            errors=(400, 409, 422),
        ),
    }

    def get(self, request: Request) -> Response:
        mine = SavedView.objects.filter(owner=actor_of(request._request))
        if request.query_params.get("resource"):
            mine = mine.filter(resource=request.query_params["resource"])
        return Response({"rows": [_row(view) for view in mine]})

    def post(self, request: Request) -> Response:
        asked = checked(shapes.ViewBody, request)
        view = services.save_view(owner=actor_of(request._request), **asked)
        return Response(_row(view), status=201)


class SavedViewView(ConsoleView):
    """One saved view."""

    calls = {
        "delete": Call(
            "deleteView",
            parameters=(Parameter("view_id", kind=int, place="path"),),
            success=204,
            errors=(404,),
        )
    }

    def delete(self, request: Request, view_id: int) -> HttpResponse:
        services.delete_view(owner=actor_of(request._request), view_id=view_id)
        return no_content()

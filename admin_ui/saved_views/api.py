"""REST of saved views."""

from typing import Any

from django.http import HttpRequest, HttpResponse

from admin_ui.calls import Call, ConsoleView, Parameter, actor_of, checked, in_thread
from admin_ui.models import SavedView
from admin_ui.saved_views import services, shapes
from engine.auth.rights import AUTHENTICATED
from gateway.http.bodies import json_answer, no_content

VIEW_PATH = (Parameter("view_id", kind=int, place="path"),)


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

    read_rights = write_rights = AUTHENTICATED
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

    async def get(self, request: HttpRequest) -> HttpResponse:
        views = SavedView.objects.filter(owner=actor_of(request))
        if request.GET.get("resource"):
            views = views.filter(resource=request.GET["resource"])
        return json_answer({"rows": [_row(view) async for view in views]})

    async def post(self, request: HttpRequest) -> HttpResponse:
        body = checked(shapes.ViewBody, request)
        view = await in_thread(services.save_view)(owner=actor_of(request), **body)
        return json_answer(_row(view), status=201)


class SavedViewView(ConsoleView):
    """A saved view of the user."""

    write_rights = AUTHENTICATED
    calls = {
        "put": Call(
            "renameView",
            shapes.ViewRow,
            parameters=VIEW_PATH,
            body=shapes.ViewName,
            errors=(400, 404, 409),
        ),
        "delete": Call("deleteView", parameters=VIEW_PATH, success=204, errors=(404,)),
    }

    async def put(self, request: HttpRequest, view_id: int) -> HttpResponse:
        name = checked(shapes.ViewName, request)["name"]
        view = await services.rename_view(owner=actor_of(request), view_id=view_id, name=name)
        return json_answer(_row(view))

    async def delete(self, request: HttpRequest, view_id: int) -> HttpResponse:
        await services.delete_view(owner=actor_of(request), view_id=view_id)
        return no_content()

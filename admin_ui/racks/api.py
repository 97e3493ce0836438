"""REST of the racks of bookies."""

from django.http import HttpRequest, HttpResponse

from admin_ui.calls import Call, Parameter, PreviewedView, actor_of, checked
from admin_ui.racks import services, shapes
from engine.auth.rights import SUPERUSER


class RackView(PreviewedView):
    """Set a bookie's rack and group, or remove them with null. A request is first a ``preview`` of the change, then
    makes exactly that change by its ``token``."""

    write_rights = SUPERUSER
    calls = {
        "post": Call(
            "changeRack",
            (shapes.RackPreview, shapes.RackReceipt),
            (Parameter("bookie", "its id", place="path"),),
            body=shapes.RackBody,
            errors=(400, 403, 404, 409, 412),
        )
    }

    async def post(self, request: HttpRequest, bookie: str) -> HttpResponse:
        body, user = checked(shapes.RackBody, request), actor_of(request)
        return await self.previewed(
            body,
            lambda engine: services.preview(engine, bookie, user, body["rack"], body["group"]),
            lambda engine, token: services.apply(engine, bookie, user, token),
        )

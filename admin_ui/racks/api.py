"""REST of the racks of bookies."""

from django.http import HttpRequest, HttpResponse

from admin_ui.calls import Call, Parameter, PreviewedView, actor_of, checked
from admin_ui.racks import services, shapes


class RackView(PreviewedView):
    """Tell a bookie's rack and group, or with null have it told no more: first ask what that would do (``preview``),
    then have exactly that done (``token``)."""

    permission = "cluster"
    write_permission = "cluster"
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
        asked, user = checked(shapes.RackBody, request), actor_of(request)
        return await self.previewed(
            asked,
            lambda engine: services.preview(engine, bookie, user, asked["rack"], asked["group"]),
            lambda engine, token: services.apply(engine, bookie, user, token),
        )

"""REST of grants."""

from django.http import HttpRequest, HttpResponse

from admin_ui.calls import Call, PreviewedView, actor_of, checked, query
from admin_ui.grants import services, shapes
from admin_ui.place import ADMIN_OF_PLACE, PLACE, place_of
from engine.base.errors import InvalidField
from gateway.http.auth.access import access_rules
from gateway.http.bodies import json_answer


class GrantsView(PreviewedView):
    """The grants of the place that the query names, and a change of what one role has there. A change is first a
    ``preview``, then made exactly so by its ``token``."""

    read_rights = write_rights = ADMIN_OF_PLACE
    for_viewer = False
    calls = {
        "get": Call("listGrants", shapes.GrantsAnswer, PLACE, errors=(400, 403, 404, 412)),
        "post": Call(
            "changeGrant",
            (shapes.GrantPreview, shapes.GrantReceipt),
            PLACE,
            body=shapes.GrantBody,
            errors=(400, 403, 404, 409, 412),
        ),
    }

    async def get(self, request: HttpRequest) -> HttpResponse:
        place = place_of(query(request))
        return json_answer(await self.work(lambda engine: services.listed(engine, place)))

    async def post(self, request: HttpRequest) -> HttpResponse:
        body, user = checked(shapes.GrantBody, request), actor_of(request)
        grant = services.grant_of(place_of(query(request)), body.get("subscription", ""))
        role, words = body.get("role", ""), body.get("words", [])
        if body["preview"]:
            if "role" not in body:
                raise InvalidField("role", "This field is required for a preview.")
            words = services.checked_words(grant, role, words)
        rules, own = access_rules(self.cluster.name), self.principal
        return await self.previewed(
            body,
            lambda engine: services.preview(
                engine, grant, role, words, user, rules=rules, own_role=own
            ),
            lambda engine, token: services.apply(engine, grant, user, token),
        )

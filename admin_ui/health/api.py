"""REST of the instance's health."""

from django.http import HttpRequest, HttpResponse

from admin_ui.calls import OF_CLUSTER, Call, InstanceView
from admin_ui.health import selectors, shapes
from engine.auth.rights import AUTHENTICATED
from gateway.http.bodies import json_answer


class HealthView(InstanceView):
    """The state of each part of the instance. The answer never waits for any of them."""

    read_rights = AUTHENTICATED
    calls = {"get": Call("getHealth", shapes.HealthAnswer, (OF_CLUSTER,), errors=(404,))}

    async def get(self, request: HttpRequest) -> HttpResponse:
        cluster = self.cluster
        return json_answer(await cluster.link.on_loop(lambda: selectors.health(cluster)))

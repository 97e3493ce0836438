"""REST of the instance's health."""

from django.http import HttpRequest, HttpResponse

from admin_ui.calls import Call, ConsoleView
from admin_ui.health import selectors, shapes
from gateway.http.bodies import json_answer
from gateway.services.engine_link import link


class HealthView(ConsoleView):
    """The state of each part of the instance. The answer never waits for any of them."""

    calls = {"get": Call("getHealth", shapes.HealthAnswer)}

    async def get(self, request: HttpRequest) -> HttpResponse:
        return json_answer(await link().on_loop(selectors.health))

"""REST of where the console is."""

from rest_framework.request import Request
from rest_framework.response import Response

from admin_ui.calls import Call, ConsoleView, http_url
from admin_ui.environment import selectors, shapes
from gateway.services.engine_link import link


class EnvironmentView(ConsoleView):
    """Where the console is and who uses it."""

    calls = {"get": Call("getEnvironment", shapes.EnvironmentAnswer)}

    def get(self, request: Request) -> Response:
        body = link().run(selectors.environment)
        body["http_url"] = http_url(request)
        user = request.user
        body["user"] = (
            {"name": user.get_username(), "superuser": user.is_superuser}
            if user.is_authenticated
            else None
        )
        return Response(body)

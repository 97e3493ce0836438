"""REST of the environment of the console."""

from django.http import HttpRequest, HttpResponse

from admin_ui.calls import OF_CLUSTER, Call, InstanceView, http_url
from admin_ui.environment import selectors, shapes
from engine.auth.rights import AUTHENTICATED
from gateway.clusters.registry import clusters_for, path_of
from gateway.http.auth.identity import name_of
from gateway.http.bodies import json_answer


class EnvironmentView(InstanceView):
    """The cluster, addresses and version of the instance, and the user."""

    read_rights = AUTHENTICATED
    calls = {"get": Call("getEnvironment", shapes.EnvironmentAnswer, (OF_CLUSTER,), errors=(404,))}

    async def get(self, request: HttpRequest) -> HttpResponse:
        body = await selectors.environment(self.cluster, self.work)
        clusters = clusters_for(request)
        is_default = self.cluster is clusters.default
        body["served"] = clusters.names
        body["http_url"] = http_url(request) + path_of("" if is_default else self.cluster.name)
        name = name_of(request)
        body["user"] = {"name": name, "superuser": request.user.is_superuser} if name else None
        return json_answer(body)

"""REST of rights."""

from django.http import HttpRequest, HttpResponse

from admin_ui.access import operations, selectors, shapes
from admin_ui.calls import WINDOW, Call, ClusterView, Parameter, query
from admin_ui.lists.record_order import sort_parameter
from admin_ui.place import ADMIN_OF_PLACE, PLACE, SUBSCRIPTION, place_of
from engine.auth.rights import AUTHENTICATED
from gateway.clusters.registry import clusters_for
from gateway.http.bodies import json_answer

ROLE = Parameter("role", place="path")


class AccessView(ClusterView):
    """The roles that may do something at a place, and why."""

    read_rights = ADMIN_OF_PLACE
    calls = {
        "get": Call(
            "getAccess", shapes.AccessAnswer, (*PLACE, SUBSCRIPTION), errors=(400, 403, 404, 412)
        )
    }

    async def get(self, request: HttpRequest) -> HttpResponse:
        place = place_of(query(request))
        return json_answer(
            await self.work(lambda engine: selectors.access(self.viewer, engine, place))
        )


class RolesView(ClusterView):
    """The roles that records name: of the tenants that the caller administers, for superusers of all."""

    read_rights = AUTHENTICATED
    calls = {
        "get": Call(
            "listRoles",
            shapes.RolesAnswer,
            (
                Parameter("q", "part of the name, in any case"),
                sort_parameter(selectors.SORTS, selectors.DEFAULT_SORT),
                *WINDOW,
            ),
            errors=(400,),
        )
    }

    async def get(self, request: HttpRequest) -> HttpResponse:
        params = query(request)
        return json_answer(
            await self.work(lambda engine: selectors.roles(self.viewer, self.cluster, params))
        )


class RoleView(ClusterView):
    """The rights of a role: in the tenants that the caller administers; superusers see all of it, as does the role."""

    read_rights = AUTHENTICATED
    calls = {
        "get": Call(
            "getRole",
            shapes.ReachAnswer,
            (
                ROLE,
                Parameter("q", "part of the place's name, in any case"),
                sort_parameter(selectors.REACH_SORTS, "place"),
                *WINDOW,
            ),
            errors=(400, 403),
        ),
    }

    async def get(self, request: HttpRequest, role: str) -> HttpResponse:
        params = query(request)
        return json_answer(
            await self.work(
                lambda engine: selectors.reach(
                    self.viewer, self.cluster, role, params, own_role=self.principal
                )
            )
        )


class MayView(ClusterView):
    """The operations of a place that the caller may make, and what is missing for the others."""

    read_rights = AUTHENTICATED
    calls = {
        "get": Call(
            "getMay",
            shapes.MayAnswer,
            (*PLACE, SUBSCRIPTION, Parameter("policy", "of operations about a policy")),
            errors=(400, 412),
        )
    }

    async def get(self, request: HttpRequest) -> HttpResponse:
        params = query(request)
        place, policy = place_of(params), params.get("policy", "")
        caller = operations.AskingCaller(self.identity, self.level, clusters_for(request))
        answers = await self.work(
            lambda engine: operations.may(self.cluster, caller, place, policy)
        )
        return json_answer({"actions": answers})

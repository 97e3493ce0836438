"""REST of rights."""

from collections.abc import Callable
from typing import TypeVar

from django.http import HttpRequest, HttpResponse

from admin_ui.access import operations, selectors, shapes
from admin_ui.access.place import PLACE, SUBSCRIPTION, Asking, judged_place, place_of
from admin_ui.calls import WINDOW, Call, ClusterView, Parameter, query
from engine.auth.actions import Action
from engine.auth.resource_names import TenantName, WholeCluster
from engine.auth.rights import AUTHENTICATED, Right
from engine.base.names import NamespaceName, TopicName
from gateway.http.bodies import json_answer

ROLE = Parameter("role", place="path")
K = TypeVar("K", TenantName, NamespaceName, TopicName, WholeCluster)


def _if(kind: type[K]) -> Callable[[Asking], tuple[K, ...]]:
    """Return a function that returns the place of the query if it is of this kind."""

    def resources(view: Asking) -> tuple[K, ...]:
        place = judged_place(view)
        return (place,) if isinstance(place, kind) else ()

    return resources


ADMIN_OF_PLACE = (
    Right(Action.TENANT_ADMIN, TenantName, _if(TenantName)),
    Right(Action.TENANT_ADMIN, NamespaceName, _if(NamespaceName)),
    Right(Action.TENANT_ADMIN, TopicName, _if(TopicName)),
    Right(Action.SUPERUSER, WholeCluster, _if(WholeCluster)),
)
"""The right to administer the place that the query names."""


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
            (Parameter("q", "part of the name, in any case"), *WINDOW),
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
        "get": Call("getRole", shapes.ReachAnswer, (ROLE, *WINDOW), errors=(400, 403)),
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
        answers = await self.work(
            lambda engine: operations.may(self.cluster, self.identity, self.level, place, policy)
        )
        return json_answer({"actions": answers})

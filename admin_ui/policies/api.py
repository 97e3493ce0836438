"""REST of policies: read those of a topic, preview a change of one, and make exactly that change."""

from django.http import HttpRequest, HttpResponse

from admin_ui.calls import (
    TOPIC_PATH,
    Call,
    ClusterView,
    Parameter,
    PreviewedView,
    actor_of,
    checked,
)
from admin_ui.params import topic_name
from admin_ui.policies import selectors, services, shapes
from admin_ui.policies.selectors import OF_NAMESPACES, OF_TOPICS
from admin_ui.rights import ADMIN
from engine.auth.actions import Action
from engine.auth.resource_names import CLUSTER, WholeCluster
from engine.auth.rights import Right
from engine.base.errors import NotFound
from engine.tenancy.namespaces import namespace_name
from engine.tenancy.policies.policy import Level, Policy
from engine.tenancy.policies.table import BY_NAME
from gateway.http.auth.access import ADMIN_OF_NAMESPACE, Named
from gateway.http.bodies import json_answer

POLICY = Parameter("policy", "name of its row", place="path")
TENANT = Parameter("tenant", place="path")
NAMESPACE = Parameter("namespace", "without the tenant", place="path")
SAVED = (shapes.PolicyPreview, shapes.PolicyReceipt)
REFUSALS = (400, 403, 404, 405, 409, 412, 501)


class TopicPoliciesView(ClusterView):
    """All policies of a topic."""

    read_rights = ADMIN
    calls = {
        "get": Call(
            "getTopicPolicies",
            shapes.TopicPoliciesAnswer,
            TOPIC_PATH,
            errors=(400, 404, 405, 412),
        )
    }

    async def get(self, request: HttpRequest, **where: str) -> HttpResponse:
        name = self.name(where)
        return json_answer(await self.work(lambda engine: selectors.topic(engine, name)))


class _PolicyView(PreviewedView):
    """Set a policy, or remove it with null. A request is first a ``preview`` of the change, then makes exactly that
    change by its ``token``."""

    async def change(
        self, request: HttpRequest, place: services.Place, policy: Policy
    ) -> HttpResponse:
        body, user = checked(shapes.PolicyBody, request), actor_of(request)
        return await self.previewed(
            body,
            lambda engine: services.preview(
                self.cluster, engine, place, policy, user, body["value"]
            ),
            lambda engine, token: services.apply(self.cluster, engine, place, policy, user, token),
        )


def _by_superuser(view: Named) -> tuple[WholeCluster, ...]:
    """Return the cluster if only a superuser changes the policy of a namespace that the path names."""
    row = BY_NAME.get(view.kwargs["policy"])
    route = None if row is None else row.route_at(Level.NAMESPACE)
    return (CLUSTER,) if route is not None and route.by_superuser else ()


class NamespacePolicyView(_PolicyView):
    write_rights = (ADMIN_OF_NAMESPACE, Right(Action.SUPERUSER, WholeCluster, _by_superuser))
    calls = {
        "post": Call(
            "setNamespacePolicy",
            SAVED,
            (TENANT, NAMESPACE, POLICY),
            body=shapes.PolicyBody,
            errors=REFUSALS,
        )
    }

    async def post(
        self, request: HttpRequest, tenant: str, namespace: str, policy: str
    ) -> HttpResponse:
        row = BY_NAME.get(policy)
        if row not in OF_NAMESPACES:
            raise NotFound(f"Namespaces have no policy {policy}")
        return await self.change(request, namespace_name(tenant, namespace), row)


class TopicPolicyView(_PolicyView):
    write_rights = ADMIN
    calls = {
        "post": Call(
            "setTopicPolicy", SAVED, (*TOPIC_PATH, POLICY), body=shapes.PolicyBody, errors=REFUSALS
        )
    }

    async def post(self, request: HttpRequest, policy: str, **where: str) -> HttpResponse:
        row = BY_NAME.get(policy)
        if row not in OF_TOPICS:
            raise NotFound(f"Topics have no policy {policy}")
        return await self.change(request, topic_name(**where), row)

"""What roles may do in a namespace, with a topic or a subscription: kept and answered, nobody asks for it yet."""

from typing import Any

from django.http import HttpRequest, HttpResponse

from engine.base.errors import InvalidField
from engine.base.names import TopicName
from engine.tenancy import grants
from engine.tenancy.checks import read_actions, read_roles
from engine.tenancy.namespaces import namespace_name
from gateway.http.bodies import json_answer, json_body, no_content
from gateway.rest.base import AdminView
from gateway.rest.topics import TopicView
from gateway.services import topics


class _OfNamespace(AdminView):
    permission = "tenant"
    write_permission = "tenant"


class NamespaceGrants(_OfNamespace):
    """Actions by role."""

    async def get(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        return json_answer(await self.work(lambda engine: grants.of_namespace(engine.store, name)))


class NamespaceGrant(_OfNamespace):
    """Of one role."""

    async def post(
        self, request: HttpRequest, tenant: str, namespace: str, role: str
    ) -> HttpResponse:
        name, actions = namespace_name(tenant, namespace), read_actions(json_body(request))
        await self.work(lambda engine: grants.grant(engine.store, name, role, actions))
        return no_content()

    async def delete(
        self, request: HttpRequest, tenant: str, namespace: str, role: str
    ) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        await self.work(lambda engine: grants.revoke(engine.store, name, role))
        return no_content()


class SubscriptionGrants(_OfNamespace):
    """Roles by subscription."""

    async def get(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        return json_answer(
            await self.work(lambda engine: grants.of_subscriptions(engine.store, name))
        )


class SubscriptionGrant(_OfNamespace):
    """The roles of one subscription."""

    async def post(
        self, request: HttpRequest, tenant: str, namespace: str, subscription: str
    ) -> HttpResponse:
        name, roles = namespace_name(tenant, namespace), read_roles(json_body(request))
        await self.work(
            lambda engine: grants.grant_on_subscription(engine.store, name, subscription, roles)
        )
        return no_content()


class SubscriptionRevocation(_OfNamespace):
    """Takes one role from a subscription."""

    async def delete(
        self, request: HttpRequest, tenant: str, namespace: str, subscription: str, role: str
    ) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        await self.work(
            lambda engine: grants.revoke_on_subscription(engine.store, name, subscription, role)
        )
        return no_content()


class _OfTopic(TopicView):
    permission = "tenant"
    write_permission = "tenant"


class TopicGrants(_OfTopic):
    """Actions by role, those of the namespace included."""

    async def get(self, request: HttpRequest, **where: str) -> HttpResponse:
        name = self.name(**where)
        return json_answer(await self.work(lambda engine: topics.grants_on(engine, name)))


class TopicGrant(_OfTopic):
    """Of one role."""

    async def post(self, request: HttpRequest, *, role: str, **where: str) -> HttpResponse:
        name, actions = self.name(**where), read_actions(json_body(request))
        await self.work(lambda engine: topics.grant(engine, name, role, actions))
        return no_content()

    async def delete(self, request: HttpRequest, *, role: str, **where: str) -> HttpResponse:
        name = self.name(**where)
        await self.work(lambda engine: topics.revoke(engine, name, role))
        return no_content()


class GrantsOnTopics(AdminView):
    """Grants several at once, one after the other: when one is refused, those before it are there."""

    permission = "tenant"
    write_permission = "tenant"

    async def post(self, request: HttpRequest) -> HttpResponse:
        asked = [
            (*_topic_and_role(one), read_actions(one.get("actions")))
            for one in _options(json_body(request))
        ]
        await self.work(lambda engine: topics.grant_each(engine, asked))
        return no_content()


class RevocationsOnTopics(AdminView):
    """Revokes several at once, one after the other."""

    permission = "tenant"
    write_permission = "tenant"

    async def post(self, request: HttpRequest) -> HttpResponse:
        asked = [_topic_and_role(one) for one in _options(json_body(request))]
        await self.work(lambda engine: topics.revoke_each(engine, asked))
        return no_content()


def _options(given: Any) -> list[dict[str, Any]]:
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        raise InvalidField("body", "expected an array of objects")
    return given


def _topic_and_role(given: dict[str, Any]) -> tuple[TopicName, str]:
    topic, role = given.get("topic"), given.get("role")
    for field, value in (("topic", topic), ("role", role)):
        if not isinstance(value, str):
            raise InvalidField(field, "expected a text")
    return TopicName.parse(str(topic)), str(role)


_NAMESPACE = "/admin/v2/namespaces/{tenant}/{namespace}/permissions"
_TOPIC = "/admin/v2/persistent/{tenant}/{namespace}/{topic}/permissions"
ROUTES: list[tuple[str, type[AdminView]]] = [
    (_NAMESPACE, NamespaceGrants),
    (f"{_NAMESPACE}/{{role}}", NamespaceGrant),
    (f"{_NAMESPACE}/subscription", SubscriptionGrants),
    (f"{_NAMESPACE}/subscription/{{subscription}}", SubscriptionGrant),
    (f"{_NAMESPACE}/{{subscription}}/{{role}}", SubscriptionRevocation),
    (_TOPIC, TopicGrants),
    (f"{_TOPIC}/{{role}}", TopicGrant),
    ("/admin/v2/namespaces/grantPermissionsOnTopics", GrantsOnTopics),
    ("/admin/v2/namespaces/revokePermissionsOnTopics", RevocationsOnTopics),
]

"""Permissions of roles on namespaces, topics and subscriptions."""

from typing import Any

from django.http import HttpRequest, HttpResponse

from engine.auth.actions import Action
from engine.auth.rights import Right
from engine.base.errors import InvalidField
from engine.base.names import TopicName
from engine.tenancy import grants
from engine.tenancy.checks import read_actions, read_roles
from engine.tenancy.namespaces import namespace_name
from gateway.http.auth.access import ADMIN_OF_NAMESPACE
from gateway.http.bodies import json_answer, json_body, no_content
from gateway.rest.base import AdminResource
from gateway.rest.rights import ADMIN
from gateway.rest.topics import TopicPathResource
from gateway.services.admin import permissions


class _NamespaceGrantsBase(AdminResource):
    read_rights = write_rights = ADMIN_OF_NAMESPACE


class NamespaceGrantsResource(_NamespaceGrantsBase):
    """The actions granted on a namespace, by role."""

    async def get(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        return json_answer(await self.work(lambda engine: grants.of_namespace(engine.store, name)))


class NamespaceGrantResource(_NamespaceGrantsBase):
    """The actions granted to one role on a namespace."""

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


class SubscriptionGrantsResource(_NamespaceGrantsBase):
    """The roles that may use subscriptions of a namespace, by subscription."""

    async def get(self, request: HttpRequest, tenant: str, namespace: str) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        return json_answer(
            await self.work(lambda engine: grants.of_subscriptions(engine.store, name))
        )


class SubscriptionGrantResource(_NamespaceGrantsBase):
    """The roles that may use one subscription."""

    async def post(
        self, request: HttpRequest, tenant: str, namespace: str, subscription: str
    ) -> HttpResponse:
        name, roles = namespace_name(tenant, namespace), read_roles(json_body(request))
        await self.work(
            lambda engine: grants.grant_on_subscription(engine.store, name, subscription, roles)
        )
        return no_content()


class SubscriptionRevocationResource(_NamespaceGrantsBase):
    """The removal of one role from a subscription."""

    async def delete(
        self, request: HttpRequest, tenant: str, namespace: str, subscription: str, role: str
    ) -> HttpResponse:
        name = namespace_name(tenant, namespace)
        await self.work(
            lambda engine: grants.revoke_on_subscription(engine.store, name, subscription, role)
        )
        return no_content()


class _TopicGrantsBase(TopicPathResource):
    read_rights = write_rights = ADMIN


class TopicGrantsResource(_TopicGrantsBase):
    """The actions granted on a topic by role, those of its namespace included."""

    async def get(self, request: HttpRequest, **path: str) -> HttpResponse:
        name = self.name(**path)
        return json_answer(await self.work(lambda engine: permissions.of_topic(engine, name)))


class TopicGrantResource(_TopicGrantsBase):
    """The actions granted to one role on a topic."""

    async def post(self, request: HttpRequest, *, role: str, **path: str) -> HttpResponse:
        name, actions = self.name(**path), read_actions(json_body(request))
        await self.work(lambda engine: permissions.grant(engine, name, role, actions))
        return no_content()

    async def delete(self, request: HttpRequest, *, role: str, **path: str) -> HttpResponse:
        name = self.name(**path)
        await self.work(lambda engine: permissions.revoke(engine, name, role))
        return no_content()


def _topics_of_body(view: AdminResource) -> tuple[TopicName, ...]:
    return tuple(_topic_and_role(option)[0] for option in _options(json_body(view.request)))


ADMIN_OF_EACH: Right[AdminResource] = Right(Action.TENANT_ADMIN, TopicName, _topics_of_body)


class GrantsOnTopicsResource(AdminResource):
    """Grants on several topics, made one after the other. When one is refused, those before it remain."""

    write_rights = ADMIN_OF_EACH

    async def post(self, request: HttpRequest) -> HttpResponse:
        requested = [
            (*_topic_and_role(option), read_actions(option.get("actions")))
            for option in _options(json_body(request))
        ]
        await self.work(lambda engine: permissions.grant_each(engine, requested))
        return no_content()


class RevocationsOnTopicsResource(AdminResource):
    """Revocations on several topics, made one after the other."""

    write_rights = ADMIN_OF_EACH

    async def post(self, request: HttpRequest) -> HttpResponse:
        requested = [_topic_and_role(option) for option in _options(json_body(request))]
        await self.work(lambda engine: permissions.revoke_each(engine, requested))
        return no_content()


def _options(body: Any) -> list[dict[str, Any]]:
    if not isinstance(body, list) or not all(isinstance(option, dict) for option in body):
        raise InvalidField("body", "expected an array of objects")
    return body


def _topic_and_role(option: dict[str, Any]) -> tuple[TopicName, str]:
    topic, role = option.get("topic"), option.get("role")
    for field, value in (("topic", topic), ("role", role)):
        if not isinstance(value, str):
            raise InvalidField(field, "expected a text")
    return TopicName.parse(str(topic)), str(role)


_NAMESPACE = "/admin/v2/namespaces/{tenant}/{namespace}/permissions"
_TOPIC = "/admin/v2/persistent/{tenant}/{namespace}/{topic}/permissions"
ROUTES: list[tuple[str, type[AdminResource]]] = [
    (_NAMESPACE, NamespaceGrantsResource),
    (f"{_NAMESPACE}/{{role}}", NamespaceGrantResource),
    (f"{_NAMESPACE}/subscription", SubscriptionGrantsResource),
    (f"{_NAMESPACE}/subscription/{{subscription}}", SubscriptionGrantResource),
    (f"{_NAMESPACE}/{{subscription}}/{{role}}", SubscriptionRevocationResource),
    (_TOPIC, TopicGrantsResource),
    (f"{_TOPIC}/{{role}}", TopicGrantResource),
    ("/admin/v2/namespaces/grantPermissionsOnTopics", GrantsOnTopicsResource),
    ("/admin/v2/namespaces/revokePermissionsOnTopics", RevocationsOnTopicsResource),
]

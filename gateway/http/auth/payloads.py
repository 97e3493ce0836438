"""Payloads of messages: shown to people by the payload rules, and each reveal is recorded (A38).

Programs are not concerned: by their rights they consume the same messages from brokers. A personal token, which brokers
refuse, is no program's.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from django.utils.module_loading import import_string

from engine.auth.authorization.evaluator import namespace_of
from engine.auth.identity import Identity
from engine.auth.resource_names import Resource
from engine.base.errors import Forbidden
from gateway.access.issued_tokens import person_of_token
from gateway.access.payload_rules import PayloadRules, shows
from gateway.clusters.registry import Clusters
from gateway.http.auth.identity import SESSION, principal_of
from gateway.http.installed import app_attributes
from gateway.sign_in import AccessLevel


class PayloadsHiddenError(Forbidden):
    """The payload rules hide what a call would show."""


def reveals(view: type[Any], method: str) -> bool:
    """Return whether a method of a view answers payloads; HEAD, whose answer has their properties, as GET does."""
    return ("GET" if method == "HEAD" else method) in view.shows_payloads


def is_ruled(identity: Identity, level: AccessLevel) -> bool:
    """Return whether payload rules concern a caller: a person, also by a personal token, or a token that may not do all
    that its role may."""
    by_person = identity.method == SESSION or person_of_token(identity) != ""
    return by_person or level is not AccessLevel.FULL


async def check_payloads(
    clusters: Clusters, identity: Identity, level: AccessLevel, resources: Iterable[Resource]
) -> None:
    """Check that a caller may see the payloads of these topics and namespaces. Raises PayloadsHiddenError, and
    DatabaseError while the rules are not known."""
    if not is_ruled(identity, level):
        return
    rules = await clusters.part(PayloadRules).current()
    role = principal_of(identity)
    # What is of no namespace is covered by rules for all of them alone.
    for namespace in {str(namespace_of(resource) or "") for resource in resources}:
        if not shows(rules, role, level, namespace):
            raise PayloadsHiddenError(hidden_reason(role, level, namespace))


async def record_reveal(
    scope: dict[str, Any], identity: Identity, cluster: str, resources: Sequence[Resource]
) -> None:
    """Record that a socket shows a person the payloads of these topics, before it does: by the function that an app
    names as ``reveal_recorder``. Raises NotReady when it cannot be recorded."""
    for name in app_attributes("reveal_recorder"):
        await import_string(name)(scope, identity, cluster, resources)


def hidden_reason(role: str, level: AccessLevel, namespace: str) -> str:
    """Return why payloads are hidden, and who can show them."""
    return (
        f"Payloads of {namespace or 'the cluster'} are hidden from role {role} at level {level};"
        " a superuser can show them, by a payload rule"
    )

"""Authorization at the gateway's doors: the rights that a view or socket declares, and the judge that is asked."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol, TypeVar

from django.conf import settings

from engine.auth.actions import Action
from engine.auth.authorization.evaluator import AccessRules
from engine.auth.identity import Identity
from engine.auth.judge import AllowAll, Judge, Verdict
from engine.auth.resource_names import Resource, TenantName
from engine.auth.rights import AUTHENTICATED, PUBLIC, Right, Rights, all_of
from engine.auth.viewer import ALL, Viewer
from engine.base.errors import Forbidden, MagnetarError
from engine.base.names import NamespaceName
from engine.tenancy.namespaces import namespace_name
from engine.tenancy.tenants import tenant_name
from gateway.clusters.cluster import Cluster
from gateway.http.auth.cluster_judge import ClusterJudge
from gateway.http.auth.identity import principal_of
from gateway.http.auth.viewers import Viewers

T = TypeVar("T")
Declared = Rights | Mapping[str, Rights]
"""The rights of reading or of writing; of several writing methods that differ, by method."""
READING = frozenset({"GET", "HEAD", "OPTIONS"})
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
ALLOW_ALL = AllowAll()


def public(view: T) -> T:
    """Mark a function view, which no judge is asked about, as open to all callers."""
    view.rights = (PUBLIC,)  # type: ignore[attr-defined]
    return view


class Named(Protocol):
    """The part of a view that names resources: the variables of its path."""

    @property
    def kwargs(self) -> dict[str, Any]: ...


def path_tenant(view: Named) -> TenantName:
    """Return the tenant that the path names. Raises PreconditionFailed."""
    return TenantName(tenant_name(view.kwargs["tenant"]))


def path_namespace(view: Named) -> NamespaceName:
    """Return the namespace that the path names. Raises PreconditionFailed."""
    return namespace_name(view.kwargs["tenant"], view.kwargs["namespace"])


ADMIN_OF_TENANT: Right[Named] = Right(Action.TENANT_ADMIN, TenantName, path_tenant)
ADMIN_OF_NAMESPACE: Right[Named] = Right(Action.TENANT_ADMIN, NamespaceName, path_namespace)
LIST_NAMESPACE: Right[Named] = Right(Action.LOOKUP, NamespaceName, path_namespace)
CONSUME_NAMESPACE: Right[Named] = Right(Action.CONSUME, NamespaceName, path_namespace)


def declared_rights(view: type[Any]) -> dict[str, tuple[Right[Any], ...]]:
    """Return the rights of each method that a view class serves.

    GET, and the methods of ``reading_methods``, need its ``read_rights``, others its ``write_rights``. Raises
    TypeError, which names view and method, when one states none.
    """
    known = vars(view).get("_rights")
    if known is None:
        known = view._rights = {
            method: _of_method(view, method) for method in METHODS if hasattr(view, method.lower())
        }
    rights: dict[str, tuple[Right[Any], ...]] = known
    return rights


def _of_method(view: type[Any], method: str) -> tuple[Right[Any], ...]:
    attribute = "read_rights" if reads(view, method) else "write_rights"
    declared = getattr(view, attribute, ())
    if isinstance(declared, Mapping):
        declared = declared.get(method, ())
    try:
        return all_of(declared)
    except TypeError as error:
        name = f"{view.__module__}.{view.__qualname__}"
        raise TypeError(f"{name}: {method} has no right; `{attribute}` states it") from error


def reads(view: type[Any], method: str) -> bool:
    """Return whether a method of a view changes nothing."""
    return method in READING or method in view.reading_methods


def rights_are_judged() -> bool:
    """Return whether authorization is on."""
    enabled: bool = settings.IDENTITY.authorization.authorization_enabled
    return enabled


def access_rules(cluster: str) -> AccessRules:
    """Return the settings by which the calls about a cluster of this name are judged."""
    rules: AccessRules = settings.IDENTITY.access_rules(cluster)
    return rules


def judge_of(cluster: Cluster) -> Judge:
    """Return the judge of calls about a cluster, which allows everything where authorization is off."""
    if not rights_are_judged():
        return ALLOW_ALL
    return cluster.part(ClusterJudge)


async def viewer_of(identity: Identity, cluster: Cluster) -> Viewer:
    """Return what a caller may see of a cluster: everything where authorization is off. Raises the store's errors."""
    if not rights_are_judged():
        return ALL
    return await cluster.part(Viewers).of(identity)


def acting_role(identity: Identity) -> str:
    """Return the role that a connection to a broker names for a caller; empty where authorization is off, since brokers
    distinguish proxies only where rights are judged."""
    if not rights_are_judged():
        return ""
    return principal_of(identity)


class AccessRefusedError(Forbidden):
    """The judge refuses a call. ``reason`` says what is missing and who can give it."""

    def __init__(
        self, identity: Identity, action: Action, resource: Resource, verdict: Verdict
    ) -> None:
        super().__init__(verdict.reason)
        self.identity = identity
        self.action = action
        self.resource = resource


class RefusedAsError(MagnetarError):
    """A refused call, with the HTTP status and text of its answer."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


async def authorize(
    rights: Iterable[Right[T]], call: T, identity: Identity, cluster: Cluster
) -> None:
    """Check that a caller has the rights that a call needs (A2).

    Raises AccessRefusedError, and what ``Right.of`` and the judge raise.
    """
    await authorize_needs(needs_of(rights, call), identity, cluster)


Need = tuple[Action, Resource]
"""An action that a call needs the right to, with its resource."""


async def authorize_needs(needs: Iterable[Need], identity: Identity, cluster: Cluster) -> None:
    """Check that a caller has the right to each action. Raises as ``authorize``."""
    judge = judge_of(cluster)
    for action, resource in needs:
        judgement = judge.judge(identity, action, resource)
        verdict = judgement if isinstance(judgement, Verdict) else await judgement
        if not verdict.allowed:
            raise AccessRefusedError(identity, action, resource, verdict)


def needs_of(rights: Iterable[Right[T]], call: T) -> Iterator[Need]:
    """Yield each action that a call needs with its resource. Raises as ``Right.of``."""
    return (
        (right.action, resource) for right in rights if right.judged for resource in right.of(call)
    )


def rights_of(view: type[Any], method: str) -> tuple[Right[Any], ...]:
    """Return the rights that a method of a view needs. One that the view does not serve needs an identified caller."""
    return declared_rights(view).get("GET" if method == "HEAD" else method, (AUTHENTICATED,))

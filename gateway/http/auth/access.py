"""Authorization at the gateway's doors: the rights that a view or socket declares, and the judge that is asked.

Authentication is off by default; then the gateway is bound to loopback and the judge allows everything. When it is on,
users are Django's: everybody who is signed in may read, and a superuser change.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, TypeVar

from django.conf import settings
from rest_framework import exceptions

from engine.auth.actions import Action
from engine.auth.identity import UNAUTHENTICATED, Identity
from engine.auth.judge import ALLOWED, AllowAll, Judge, Judgement, Verdict, judge_call
from engine.auth.resource_names import Resource, TenantName
from engine.auth.rights import AUTHENTICATED, PUBLIC, Right, Rights, all_of
from engine.auth.viewer import ALL, Viewer
from engine.base.names import NamespaceName
from engine.tenancy.namespaces import namespace_name

T = TypeVar("T")
Declared = Rights | Mapping[str, Rights]
"""The rights of reading or of writing; of several writing methods that differ, by method."""
READING = frozenset({"GET", "HEAD", "OPTIONS"})
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
SESSION = "session"
"""The method of an identity that Django's session established."""
ALLOW_ALL = AllowAll()


def public(view: T) -> T:
    """Mark a function view, which no judge is asked about, as open to everybody."""
    view.rights = (PUBLIC,)  # type: ignore[attr-defined]
    return view


class Named(Protocol):
    """The part of a view that names resources: the variables of its path."""

    @property
    def kwargs(self) -> dict[str, Any]: ...


def path_tenant(view: Named) -> TenantName:
    """Return the tenant that the path names."""
    return TenantName(view.kwargs["tenant"])


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


class SessionJudge:
    """Judge of one request of a user of Django's: a signed-in user reads, a superuser changes."""

    def __init__(self, *, superuser: bool, reads: bool) -> None:
        self._superuser = superuser
        self._reads = reads

    def judge(self, identity: Identity, action: Action, resource: Resource) -> Judgement:
        if self._superuser or self._reads or action is Action.AUTHENTICATED:
            return ALLOWED
        return Verdict(False, f"{identity.role} is no superuser, as {action.value} requires here")


def judge_of(user: Any, *, reads: bool) -> Judge:
    """Return the judge of a call of this user."""
    if not settings.AUTHENTICATION_ENABLED:
        return ALLOW_ALL
    return SessionJudge(superuser=user.is_superuser, reads=reads)


def identity_of(user: Any) -> Identity:
    """Return the identity of Django's user. Raises NotAuthenticated for an anonymous one while authentication is on."""
    if user is not None and user.is_authenticated:
        return Identity(user.get_username(), method=SESSION)
    if settings.AUTHENTICATION_ENABLED:
        raise exceptions.NotAuthenticated
    return UNAUTHENTICATED


def viewer_of(user: Any) -> Viewer:
    """Return what the user of a request or socket may see: everything, as everybody who is signed in may read."""
    return ALL


async def authorize(rights: Iterable[Right[T]], call: T, user: Any, *, reads: bool) -> None:
    """Check that a user has the rights that a call needs (A2).

    Raises NotAuthenticated, PermissionDenied with the verdict's reason, and what ``Right.of`` and the judge raise.
    """
    judged = [right for right in rights if right.judged]
    if not judged:
        return
    identity = identity_of(user)
    judgement = judge_call(judge_of(user, reads=reads), identity, judged, call)
    verdict = judgement if isinstance(judgement, Verdict) else await judgement
    if not verdict.allowed:
        raise exceptions.PermissionDenied(verdict.reason)


async def authorize_method(view: Any, method: str, user: Any) -> None:
    """Check that a user may call a view with this HTTP method. Raises as ``authorize``.

    A method that the view does not serve needs an authenticated user.
    """
    method = "GET" if method == "HEAD" else method
    rights = declared_rights(type(view)).get(method, (AUTHENTICATED,))
    await authorize(rights, view, user, reads=reads(type(view), method))

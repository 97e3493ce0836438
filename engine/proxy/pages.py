"""The proxy's pages: ``/metrics``, ``/proxy-stats``, ``/status.html``, ``/ready``, with the rights that each needs."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any

from engine.auth.actions import Action
from engine.auth.authorization.evaluator import AccessRules
from engine.auth.authorization.evaluator import judge as evaluate
from engine.auth.authorization.policy_view import NamespaceAccess, TenantAccess
from engine.auth.credentials import AuthenticationFailed, RolesRefused
from engine.auth.identity import Identity
from engine.auth.judge import Judge, Judgement, Verdict, judge_call
from engine.auth.resource_names import Resource
from engine.auth.rights import PUBLIC, Right, all_of
from engine.base.names import NamespaceName
from engine.net.http import Request, Response, json_response
from engine.rpc.server import Identify

Page = Callable[[], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class GuardedPage:
    """A page and the right that its readers need."""

    right: Right[Any]
    page: Page
    methods: tuple[str, ...] = ("GET", "HEAD")


class NoPolicies:
    """View of a process that knows no tenant: only superusers have rights at it."""

    def tenant(self, name: str) -> TenantAccess | None:
        return None

    def namespace(self, name: NamespaceName) -> NamespaceAccess | None:
        return None


class SuperuserJudge:
    """Judge that knows superusers alone."""

    def __init__(self, rules: AccessRules) -> None:
        self._rules = rules

    def judge(self, identity: Identity, action: Action, resource: Resource) -> Judgement:
        return evaluate(identity, action, resource, NoPolicies(), self._rules)


class ProxyPages:
    """Handler of the pages. ``identify`` returns the identity of a caller, about whom ``judge`` is asked; None where
    authentication is off, and every page is open."""

    def __init__(
        self,
        pages: dict[str, GuardedPage],
        judge: Judge,
        identify: Identify | None,
    ) -> None:
        self._pages = pages
        self._judge = judge
        self._identify = identify

    @property
    def rights(self) -> dict[str, Right[Any]]:
        """The right that each page needs."""
        return {path: guarded.right for path, guarded in self._pages.items()}

    async def __call__(self, request: Request) -> Response:
        guarded = self._pages.get(request.path.removesuffix("/") or "/")
        if guarded is None:
            return json_response(404, {"reason": "No such page"})
        if request.method not in guarded.methods:
            refusal = json_response(405, {"reason": f"Served are {', '.join(guarded.methods)}"})
            return refusal._replace(headers=(("Allow", ", ".join(guarded.methods)),))
        if guarded.right is not PUBLIC and self._identify is not None:
            reason = await self._refusal(self._identify, guarded.right, request)
            if reason:
                return json_response(401, {"reason": reason})
        return await guarded.page()

    async def _refusal(self, identify: Identify, right: Right[Any], request: Request) -> str:
        """Return why the caller may not read a page; empty when it may."""
        try:
            identity = identify(request)
            caller = await identity if isawaitable(identity) else identity
        except (AuthenticationFailed, RolesRefused) as error:
            return str(error)
        judgement = judge_call(self._judge, caller, all_of(right), request)
        verdict = judgement if isinstance(judgement, Verdict) else await judgement
        return "" if verdict.allowed else verdict.reason

"""The shipped judge: Pulsar's rules (``engine.auth.authorization``) over the stored tenants and policies."""

from typing import NamedTuple

from engine.auth.actions import Action
from engine.auth.authorization.evaluator import AccessRules, judge
from engine.auth.authorization.policy_view import (
    NamespaceAccess,
    NotKnown,
    PolicyView,
    TenantAccess,
)
from engine.auth.identity import Identity
from engine.auth.judge import AllowAll, Judge, Judgement, Verdict
from engine.auth.resource_names import Resource, TenantName
from engine.auth.settings import IdentitySettings
from engine.base.errors import NotReady
from engine.base.names import NamespaceName
from engine.tenancy.access.access_records import AccessRecords
from engine.tenancy.access.stored_access import Recorded

READS_MAX = 8
"""Reads of records for one verdict: a tenant and a namespace, again where they change meanwhile."""
NOT_KNOWN = "Not known whether this is allowed; try again"


def create_judge(settings: IdentitySettings, records: AccessRecords, cluster: str) -> Judge:
    """Return the judge of a broker or gateway of ``cluster``; it allows everything where authorization is off."""
    if not settings.authorization.authorization_enabled:
        return AllowAll()
    return PolicyJudge(records, settings.access_rules(cluster))


class PolicyJudge:
    """Judge by ``records``: a process has one ``AccessRecords(store)`` for each metadata session, and closes it.

    It answers at once when all it needs is in memory, else with an awaitable that reads the missing records. While the
    store is unavailable, actions that the last known records allow stay allowed, and all others raise NotReady: a
    refusal is final only where the records are certain (A18).
    """

    def __init__(self, records: AccessRecords, rules: AccessRules) -> None:
        self._records = records
        self._rules = rules

    def judge(self, identity: Identity, action: Action, resource: Resource) -> Judgement:
        call = _Call(identity, action, resource)
        try:
            verdict = self._verdict(call, self._records)
        except NotKnown as missing:
            return self._judge_when_read(call, missing)
        return verdict if verdict.allowed else self._certain(call, verdict)

    def verdict_by(
        self, identity: Identity, action: Action, resource: Resource, view: PolicyView
    ) -> Verdict:
        """Return the verdict by other records than the stored ones. Raises what ``view`` raises."""
        return judge(identity, action, resource, view, self._rules)

    def _verdict(self, call: "_Call", view: PolicyView) -> Verdict:
        return self.verdict_by(*call, view)

    def _certain(self, call: "_Call", refusal: Verdict) -> Verdict:
        """Return a refusal. Raises NotReady if a record that it depends on may have changed without notice."""
        asked = _Asked(self._records.last_known)
        self._verdict(call, asked)
        if not all(map(self._records.is_certain, asked.names)):
            raise NotReady(NOT_KNOWN)
        return refusal

    async def _judge_when_read(self, call: "_Call", missing: NotKnown) -> Verdict:
        """Return the verdict after reading what is missing. Raises NotReady. Cancel-safe."""
        failure: NotReady | None = None
        for _ in range(READS_MAX):
            try:
                await self._records.load(missing.resource)
                verdict = self._verdict(call, self._records)
                return verdict if verdict.allowed else self._certain(call, verdict)
            except NotKnown as error:
                missing = error
            except NotReady as error:
                failure = error
                break
        return self._by_last_known(call, failure)

    def _by_last_known(self, call: "_Call", failure: NotReady | None) -> Verdict:
        """Return ALLOWED if the last known records say so. Raises NotReady otherwise."""
        try:
            verdict = self._verdict(call, self._records.last_known)
        except NotKnown as error:
            raise failure or NotReady(NOT_KNOWN) from error
        if not verdict.allowed:
            raise failure or NotReady(NOT_KNOWN)
        return verdict


class _Call(NamedTuple):
    """Call that is judged."""

    identity: Identity
    action: Action
    resource: Resource


class _Asked:
    """PolicyView that notes the ``names`` of the records that it is asked for."""

    def __init__(self, view: PolicyView) -> None:
        self._view = view
        self.names: list[Recorded] = []

    def tenant(self, name: str) -> TenantAccess | None:
        self.names.append(TenantName(name))
        return self._view.tenant(name)

    def namespace(self, name: NamespaceName) -> NamespaceAccess | None:
        self.names.append(name)
        return self._view.namespace(name)

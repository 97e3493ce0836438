"""Mistakes in judging by stored records, and in taking lost rights away."""

import asyncio
from typing import Any

from engine.auth.actions import Action
from engine.auth.authorization.policy_view import NotKnown
from engine.auth.identity import Identity
from engine.auth.judge import ALLOWED, Judgement, Verdict
from engine.auth.resource_names import Resource, SubscriptionName, TenantName
from engine.base.errors import NotReady
from engine.base.names import NamespaceName
from engine.broker.connection.sessions import Sessions
from engine.broker.errors import BrokerError
from engine.broker.revocation import Revocation, _Open
from engine.broker.topics.publish import Producer
from engine.broker.topics.publishers import Publishers
from engine.broker.topics.topic import Topic
from engine.tenancy.access.access_records import AccessRecords
from engine.tenancy.access.policy_judge import PolicyJudge, _Call
from engine.tenancy.access.revoked_tokens import RevokedTokens
from engine.tenancy.access.stored_access import Recorded
from tests.sim.plants.planting import Patches


def changes_of_records_are_not_reported() -> Patches:
    """Note changes of records for later verdicts alone: nothing that is open is judged again."""

    def changed(self: AccessRecords, name: Recorded, record: Any) -> None:
        record.changes += 1
        record.current = False

    return [(AccessRecords, "_changed", changed)]


def lost_rights_are_taken_away_later() -> Patches:
    """Judge again three seconds after a change."""
    judge_again = Revocation._judge_again

    async def late(self: Revocation, name: Recorded) -> bool:
        await asyncio.sleep(3.0)
        return await judge_again(self, name)

    return [(Revocation, "_judge_again", late)]


def revoked_producer_is_not_notified() -> Patches:
    """Remove a producer that lost its right without a word to its client."""

    def revoke(self: Publishers, producer: Producer, error: BrokerError) -> None:
        producer.leave()

    return [(Publishers, "revoke", revoke)]


def changes_of_tenants_concern_nothing() -> Patches:
    """Judge nothing again when the administrators of a tenant change."""
    namespaces = Revocation._namespaces

    def own(self: Revocation, name: Recorded) -> list[NamespaceName]:
        return [] if isinstance(name, TenantName) else namespaces(self, name)

    return [(Revocation, "_namespaces", own)]


def verdicts_are_kept() -> Patches:
    """Remember what was allowed, whatever changes."""
    judge = PolicyJudge.judge

    def remembering(
        self: PolicyJudge, identity: Identity, action: Action, resource: Resource
    ) -> Judgement:
        kept = self.__dict__.setdefault("kept", {})
        call = (identity, action, resource)
        if call in kept:
            return ALLOWED
        judgement = judge(self, identity, action, resource)
        if isinstance(judgement, Verdict) and judgement.allowed:
            kept[call] = True
        return judgement

    return [(PolicyJudge, "judge", remembering)]


def consumers_are_judged_by_the_topic_alone() -> Patches:
    """Judge attached consumers again without the rules of their subscription."""
    verdict = Revocation._verdict

    async def of_topic(self: Revocation, right: _Open) -> Verdict | None:
        resource = right.resource
        if isinstance(resource, SubscriptionName):
            right = right._replace(resource=resource.topic)
        return await verdict(self, right)

    return [(Revocation, "_verdict", of_topic)]


def only_the_first_client_is_judged_again() -> Patches:
    """Judge the first client of a topic again and no other."""
    judge_topic, verdict = Revocation._judge_topic, Revocation._verdict

    async def counted(self: Revocation, topic: Topic) -> bool:
        self.__dict__["judged"] = 0
        return await judge_topic(self, topic)

    async def first(self: Revocation, right: _Open) -> Verdict | None:
        self.__dict__["judged"] += 1
        return await verdict(self, right) if self.__dict__["judged"] == 1 else ALLOWED

    return [(Revocation, "_judge_topic", counted), (Revocation, "_verdict", first)]


def refusal_by_old_records_is_final() -> Patches:
    """Refuse for good by records that may have changed while the store was away."""

    def certain(self: PolicyJudge, call: _Call, refusal: Verdict) -> Verdict:
        return refusal

    return [(PolicyJudge, "_certain", certain)]


def revoked_tokens_are_refused_to_new_connections_alone() -> Patches:
    """Close no connection whose token is revoked."""
    return [(Sessions, "close_where", lambda self, withdrawn: None)]


def revoked_tokens_are_read_at_the_start_alone() -> Patches:
    """Follow no change of the revoked tokens."""
    return [(RevokedTokens, "start", lambda self: None)]


def unknown_right_is_a_refusal() -> Patches:
    """Refuse for good, as Apache's broker does, when the records cannot be read."""
    when_read = PolicyJudge._judge_when_read

    async def judge(self: PolicyJudge, call: _Call, missing: NotKnown) -> Verdict:
        try:
            return await when_read(self, call, missing)
        except NotReady:
            return Verdict(False, "the records cannot be read")

    return [(PolicyJudge, "_judge_when_read", judge)]

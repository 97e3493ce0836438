"""Administrative operations on policies: the values in force with their levels, and changes of topics' own policies."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

from engine.admin.api.arguments import JsonObject, OnBundle, OnTopic
from engine.admin.api.policies import (
    NAMESPACE_POLICIES,
    POLICY_EFFECT,
    SET_TOPIC_POLICY,
    TOPIC_POLICIES,
    TOPICS_WITH_POLICY,
    OwnPolicy,
    PolicyEffect,
    SetTopicPolicy,
)
from engine.base.clock import Clock
from engine.base.errors import Conflict, NotFound, PreconditionFailed
from engine.base.names import NamespaceName, TopicName
from engine.broker.administration.operations.owned_topics import OwnedTopics
from engine.broker.administration.previews import policy_effects
from engine.broker.control.catalog import Catalog
from engine.broker.control.effective_policies import topic_policies
from engine.broker.errors import TopicNotFound
from engine.broker.policies import (
    TopicPolicies,
)
from engine.broker.settings import DataPathSettings
from engine.managed.settings import LedgerConfig
from engine.metadata.records import Document
from engine.metadata.store import MetadataStore
from engine.rpc.operation import Handlers, bind
from engine.tenancy.access.read_only import check_writable
from engine.tenancy.geo.shadow_checks import check_exist
from engine.tenancy.geo.shadow_topics import SHADOWS
from engine.tenancy.policies.in_force import InForce, of_subscriptions, put_on_subscription
from engine.tenancy.policies.policy import Level, find
from engine.tenancy.policies.table import BY_NAME, POLICIES, RETENTION, SIZE_QUOTA
from engine.tenancy.policies.values import fits


class PolicyOperations:
    """Handlers of the operations, which ``engine.admin.api.policies`` describes. All changes of a topic's policies are
    made by its owner."""

    def __init__(
        self,
        store: MetadataStore,
        topics: OwnedTopics,
        catalog: Catalog,
        settings: DataPathSettings,
        ledger_config: Callable[[TopicPolicies], LedgerConfig],
        clock: Clock,
    ) -> None:
        self._store = store
        self._topics = topics
        self._catalog = catalog
        self._settings = settings
        self._ledger_config = ledger_config
        self._clock = clock

    @property
    def handlers(self) -> Handlers:
        return dict(
            [
                bind(TOPIC_POLICIES, self.topic_policies),
                bind(SET_TOPIC_POLICY, self.set_topic_policy),
                bind(POLICY_EFFECT, self.policy_effect),
                bind(TOPICS_WITH_POLICY, self.topics_with_policy),
                bind(NAMESPACE_POLICIES, self.namespace_policies),
            ]
        )

    async def namespace_policies(self, args: OnBundle) -> JsonObject:
        in_force = await self._in_force(args.namespace)
        stored = await self._catalog.stored(args.namespace)
        defaults = self._catalog.defaults()
        return {
            policy.name: {
                **_value(in_force[policy.name], find(stored, policy.key)),
                "default": defaults[policy.name].value,
            }
            for policy in POLICIES
            if policy.key
        }

    async def topic_policies(self, args: OnTopic) -> JsonObject:
        await self._topics.check_owned(args.topic)
        in_force = await self._in_force(args.topic.namespace, args.topic)
        own = await self._catalog.own.get(args.topic)
        everywhere = await self._catalog.own.get(args.topic, everywhere=True)
        inherited = await self._catalog.inherited(args.topic)
        values = {
            policy.name: {
                **_value(in_force[policy.name], policy.says(Level.TOPIC, own)),
                "everywhere": policy.says(Level.GLOBAL, everywhere),
                "inherited": inherited[policy.name].value,
                "inherited_level": inherited[policy.name].level.value,
            }
            for policy in POLICIES
            if policy.topic_key
        }
        for policy in POLICIES:
            if policy.per_subscription:
                values[policy.name] |= {
                    "subscriptions": of_subscriptions(own, policy),
                    "subscriptions_everywhere": of_subscriptions(everywhere, policy),
                }
        return values

    async def topics_with_policy(self, args: OwnPolicy) -> JsonObject:
        policy = BY_NAME.get(args.name)
        if policy is None or not policy.topic_key:
            return {}
        await self._in_force(args.namespace)
        by_topic: JsonObject = {}
        # A topic's value for this cluster replaces that for all clusters.
        for everywhere in (True, False):
            every = await self._catalog.own.every(args.namespace, everywhere=everywhere)
            values = {str(topic): policy.says(Level.TOPIC, own) for topic, own in every.items()}
            by_topic |= {topic: value for topic, value in values.items() if value is not None}
        return dict(sorted(by_topic.items()))

    async def policy_effect(self, args: PolicyEffect) -> JsonObject:
        policy = BY_NAME.get(args.name)
        if policy is None or policy.effect is None:
            raise NotFound(f"No effect is computed for the policy {args.name}")
        topic = await self._topics.get(args.topic)
        after = await self._with_value(args.topic, args.name, args.value)
        now_ms = self._clock.wall_ms() if args.at_ms is None else args.at_ms
        return await policy_effects.of(
            topic,
            policy.effect,
            after,
            self._ledger_config(after),
            self._settings,
            now_ms,
            measured=args.measured,
        )

    async def _with_value(self, topic: TopicName, name: str, value: Any) -> TopicPolicies:
        """Return the policies that the broker would act upon with ``value`` of the policy ``name`` on the topic."""
        in_force = dict(await self._in_force(topic.namespace, topic))
        in_force[name] = InForce(value, Level.TOPIC)
        return topic_policies(in_force, await self._catalog.rates_of_subscriptions(topic))

    async def set_topic_policy(self, args: SetTopicPolicy) -> JsonObject:
        await self._topics.check_owned(args.topic)
        await check_writable(self._store)
        policy = BY_NAME.get(args.name)
        if policy is None or not policy.topic_key:
            raise NotFound(f"Topics have no policy {args.name}")
        if args.subscription and not policy.per_subscription:
            raise NotFound(f"Subscriptions have no policy {args.name}")
        if policy.name == SHADOWS and args.value is not None:
            await check_exist(self._store, args.value)
        in_force = await self._in_force(args.topic.namespace, args.topic)
        before: Any = None

        def change(own: Document) -> None:
            nonlocal before
            value = policy.says(Level.TOPIC, own)
            if args.subscription:
                value = of_subscriptions(own, policy).get(args.subscription)
            before = deepcopy(value)
            if args.checked and policy.says(Level.TOPIC, own) != args.expected:
                raise Conflict(f"{policy.name} was changed meanwhile; look at it again")
            if args.subscription:
                put_on_subscription(own, policy, args.subscription, args.value)
                return
            policy.store(Level.TOPIC, own, args.value)
            values = {name: of_level.value for name, of_level in in_force.items()}
            for quota in (SIZE_QUOTA, RETENTION):
                values[quota.name] = find(own, quota.topic_key) or values[quota.name]
            if args.value is not None and not fits(values[SIZE_QUOTA.name], values[RETENTION.name]):
                raise PreconditionFailed(
                    "Retention Quota must exceed configured backlog quota for topic. "
                    "Please increase retention quota and retry",
                )

        await self._catalog.own.change(args.topic, change, everywhere=args.everywhere)
        return {"before": before}

    async def _in_force(
        self, namespace: NamespaceName, topic: TopicName | None = None
    ) -> Mapping[str, InForce]:
        try:
            return await self._catalog.in_force(namespace, topic)
        except TopicNotFound as error:
            raise NotFound("Namespace does not exist") from error


def _value(in_force: InForce, own: Any) -> JsonObject:
    return {"value": in_force.value, "level": Level(in_force.level).value, "own": own}

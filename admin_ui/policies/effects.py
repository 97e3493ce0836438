"""The effect of a policy's new value on the topics that it applies to, requested from the brokers that have them
loaded.

Topics at rest are left out: nothing of them is deleted before a client uses them, and a request would load them.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from engine.admin.api.policies import POLICY_EFFECT, TOPICS_WITH_POLICY, OwnPolicy, PolicyEffect
from engine.admin.api.rows import TOPICS, LoadedTopics
from engine.base.errors import NotFound, Unsupported
from engine.base.names import NamespaceName, TopicName
from engine.tenancy.policies.policy import Policy
from engine.tenancy.topics import list_topics
from gateway.http.errors import describe
from gateway.services import catalog
from gateway.services.admin import existence
from gateway.services.engine_link import Engine

ASKED_MAX = 500
"""Maximum of topics and partitions that are requested for one preview."""
MEASURED_MAX = 16
"""Number of topics up to which messages are counted too, for which entries are read."""
LISTED_MAX = 100
LOOKING_S = 3.0
"""Longest wait for a broker's list of topics."""
ASKING_S = 6.0
"""Longest wait for the effects of all topics; a topic without an answer by then is not counted."""
NOT_ASKED = f"Only {ASKED_MAX} topics and partitions are checked"
Json = dict[str, Any]
Seen = dict[str, dict[str, int]]


class OwnValues(NamedTuple):
    """Topics with a value of their own, by full name; ``unknown``: the reason why they are not known."""

    values: dict[str, Any]
    unknown: str


class Scope(NamedTuple):
    """Topics that a value applies to. ``parts``: topics and partitions; ``loaded``: those that brokers have loaded.
    ``silent``: the reason why a broker does not answer what it has loaded, by its address."""

    parts: list[TopicName]
    loaded: list[TopicName]
    silent: dict[str, str]


@dataclass(slots=True)
class Effects:
    """Answers by topic or partition, and the reason of each one without an answer."""

    scope: Scope
    answers: dict[TopicName, Json] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def seen(self) -> Seen:
        """Number of lost entries by subscription, of each part where a subscription loses some or that is deleted."""
        return {
            str(name): {loser["name"]: loser["entries"] for loser in effect["subscriptions"]}
            for name, effect in self.answers.items()
            if effect["subscriptions"] or effect["deleted"]
        }

    @property
    def counted(self) -> list[str]:
        return [str(name) for name in self.answers]

    def as_json(self) -> Json:
        """Return the effects in the shape ``shapes.PolicyEffects``."""
        losers = [
            {"topic": str(name), **entry}
            for name, effect in self.answers.items()
            for entry in effect["subscriptions"]
        ]
        losers.sort(key=lambda entry: (-entry["entries"], entry["topic"], entry["name"]))
        deleted = [
            {"name": str(name), "bytes": effect["bytes"]}
            for name, effect in self.answers.items()
            if effect["deleted"]
        ]
        deleted.sort(key=lambda entry: (-entry["bytes"], entry["name"]))
        not_counted = [
            {"name": name, "reason": reason} for name, reason in self.scope.silent.items()
        ]
        not_counted += [{"name": name, "reason": reason} for name, reason in self.failed.items()]
        not_counted += [
            {"name": f"{name} {title}", "reason": reason}
            for name, effect in self.answers.items()
            for title, reason in effect["unknown"].items()
        ]
        delays = [effect["within_s"] for effect in self.answers.values()]
        return {
            **self._topics(),
            "bytes": sum(effect["bytes"] for effect in self.answers.values()),
            "subscriptions": losers[:LISTED_MAX],
            "subscriptions_total": len(losers),
            "entries": sum(entry["entries"] for entry in losers),
            "deleted": deleted[:LISTED_MAX],
            "deleted_total": len(deleted),
            "producers": sum(effect["producers"] for effect in self.answers.values()),
            "not_counted": not_counted[:LISTED_MAX],
            "not_counted_total": len(not_counted),
            "within_s": max(delays, default=0.0),
        }

    def _topics(self) -> Json:
        loaded = set(self.scope.loaded)
        topics = {part.partitioned for part in self.scope.parts}
        at_rest = {part.partitioned for part in self.scope.parts if part not in loaded}
        unanswered = {part.partitioned for part in loaded if part not in self.answers}
        return {
            "topics": len(topics),
            "counted": len(topics - at_rest - unanswered),
            "at_rest": None if self.scope.silent else len(at_rest),
        }


async def overriding(engine: Engine, name: NamespaceName, policy: Policy) -> OwnValues:
    """Return the topics of the namespace that keep their own value."""
    try:
        async with asyncio.timeout(LOOKING_S):
            args = OwnPolicy(name, name=policy.name)
            return OwnValues(await engine.call(TOPICS_WITH_POLICY, args), "")
    except Exception as error:
        return OwnValues({}, _why_not_known(error))


def _why_not_known(error: Exception) -> str:
    """Return why brokers do not answer, or cannot. Any other error is raised again."""
    if isinstance(error, Unsupported):
        return str(error)
    status, reason = describe(error)
    if status != 503:
        raise error
    return reason


async def of_namespace(engine: Engine, name: NamespaceName, own: OwnValues) -> Scope:
    """Return the topics of the namespace except those with a value of their own."""
    parts = [TopicName.parse(topic) for topic in await list_topics(engine.store, name)]
    parts = [part for part in parts if str(part.partitioned) not in own.values]
    silent: dict[str, str] = {}
    loaded: set[str] = set()

    async def read_loaded(broker: Any) -> None:
        try:
            async with asyncio.timeout(LOOKING_S):
                names = await engine.call_on(broker, TOPICS, LoadedTopics(name))
            loaded.update(names)
        except Exception as error:
            status, reason = describe(error)
            if status != 503:
                raise
            silent[broker.http_url] = reason

    await catalog.each(await engine.admin.brokers(), read_loaded)
    return Scope(parts, [part for part in parts if str(part) in loaded], silent)


async def of_topic(engine: Engine, name: TopicName) -> Scope:
    """Return the topic, or its partitions; they are loaded for the answer. Raises NotFound."""
    parts = await existence.members(engine, name)
    return Scope(parts, parts, {})


async def gather(
    engine: Engine, scope: Scope, policy: Policy, value: Any, at_ms: int | None = None
) -> Effects:
    """Return the effects of ``value`` being in force, now or at ``at_ms``. A topic that does not answer is not
    counted."""
    effects = Effects(scope)
    requested, left_out = scope.loaded[:ASKED_MAX], scope.loaded[ASKED_MAX:]
    effects.failed.update(dict.fromkeys(map(str, left_out), NOT_ASKED))
    measured = len(requested) <= MEASURED_MAX
    until_s = asyncio.get_running_loop().time() + ASKING_S

    async def read_effect(part: TopicName) -> None:
        args = PolicyEffect(part, policy.name, value, at_ms, measured)
        try:
            async with asyncio.timeout_at(until_s):
                effects.answers[part] = await engine.call(POLICY_EFFECT, args)
        except NotFound:
            effects.failed[str(part)] = "It is gone"
        except Exception as error:
            effects.failed[str(part)] = _why_not_known(error)

    await catalog.each(requested, read_effect)
    return effects

"""What a policy's new value would take of the topics that it is for, asked of the brokers that have them loaded.

Of topics at rest nothing is asked: nothing goes of them before somebody uses them, and to ask would load them.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from engine.admin import api
from engine.base.errors import NotFound
from engine.base.names import NamespaceName, TopicName
from engine.tenancy.policies.policy import Policy
from engine.tenancy.topics import list_topics
from gateway.http.errors import describe
from gateway.services import catalog, topics
from gateway.services.engine_link import Engine

ASKED_MAX = 500
"""Topics and partitions asked for one preview."""
MEASURED_MAX = 16
"""Up to so many, messages are counted too, which means to read entries."""
LISTED_MAX = 100
LOOKING_S = 3.0
ASKING_S = 6.0
"""For all of them: what has not answered then is not counted."""
NOT_ASKED = f"Only {ASKED_MAX} topics and partitions are looked at"
Json = dict[str, Any]
Seen = dict[str, dict[str, int]]


class Own(NamedTuple):
    """Topics with a value of their own by full name; ``unknown`` why they are not known."""

    values: dict[str, Any]
    unknown: str


class Scope(NamedTuple):
    """``parts``: topics and partitions that the value is for; ``loaded``: those of them that brokers have. ``silent``:
    why a broker does not say which it has, by its address."""

    parts: list[TopicName]
    loaded: list[TopicName]
    silent: dict[str, str]


@dataclass(slots=True)
class Effects:
    """Answers by part; why the others gave none."""

    scope: Scope
    answers: dict[TopicName, Json] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def seen(self) -> Seen:
        """Entries by subscription and part that would lose some; parts that would go are there as well."""
        return {
            str(name): {one["name"]: one["entries"] for one in said["subscriptions"]}
            for name, said in self.answers.items()
            if said["subscriptions"] or said["deleted"]
        }

    @property
    def counted(self) -> list[str]:
        return [str(name) for name in self.answers]

    def told(self) -> Json:
        """As ``shapes.PolicyEffects``."""
        losers = [
            {"topic": str(name), **one}
            for name, said in self.answers.items()
            for one in said["subscriptions"]
        ]
        losers.sort(key=lambda one: (-one["entries"], one["topic"], one["name"]))
        deleted = [
            {"name": str(name), "bytes": said["bytes"]}
            for name, said in self.answers.items()
            if said["deleted"]
        ]
        deleted.sort(key=lambda one: (-one["bytes"], one["name"]))
        without = [{"name": name, "reason": why} for name, why in self.scope.silent.items()]
        without += [{"name": name, "reason": why} for name, why in self.failed.items()]
        without += [
            {"name": f"{name} {title}", "reason": why}
            for name, said in self.answers.items()
            for title, why in said["unknown"].items()
        ]
        known = [said["within_s"] for said in self.answers.values()]
        return {
            **self._topics(),
            "bytes": sum(said["bytes"] for said in self.answers.values()),
            "subscriptions": losers[:LISTED_MAX],
            "subscriptions_total": len(losers),
            "entries": sum(one["entries"] for one in losers),
            "deleted": deleted[:LISTED_MAX],
            "deleted_total": len(deleted),
            "producers": sum(said["producers"] for said in self.answers.values()),
            "not_counted": without[:LISTED_MAX],
            "not_counted_total": len(without),
            "within_s": max(known, default=0.0),
        }

    def _topics(self) -> Json:
        loaded = set(self.scope.loaded)
        every = {part.partitioned for part in self.scope.parts}
        at_rest = {part.partitioned for part in self.scope.parts if part not in loaded}
        missed = {part.partitioned for part in loaded if part not in self.answers}
        return {
            "topics": len(every),
            "counted": len(every - at_rest - missed),
            "at_rest": None if self.scope.silent else len(at_rest),
        }


async def overriding(engine: Engine, name: NamespaceName, policy: Policy) -> Own:
    """Topics of the namespace that keep their own value whatever it says."""
    try:
        async with asyncio.timeout(LOOKING_S):
            args = api.OwnPolicy(name, name=policy.name)
            return Own(await engine.call(api.TOPICS_WITH_POLICY, args), "")
    except Exception as error:
        status, reason = describe(error)
        if status != 503:
            raise
        return Own({}, reason)


async def of_namespace(engine: Engine, name: NamespaceName, own: Own) -> Scope:
    """Its topics but those with a value of their own."""
    parts = [TopicName.parse(one) for one in await list_topics(engine.store, name)]
    parts = [part for part in parts if str(part.partitioned) not in own.values]
    silent: dict[str, str] = {}
    loaded: set[str] = set()

    async def ask(broker: Any) -> None:
        try:
            async with asyncio.timeout(LOOKING_S):
                names = await engine.call_on(broker, api.TOPICS, api.LoadedTopics(name))
            loaded.update(names)
        except Exception as error:
            status, reason = describe(error)
            if status != 503:
                raise
            silent[broker.http_url] = reason

    await catalog.each(await engine.admin.brokers(), ask)
    return Scope(parts, [part for part in parts if str(part) in loaded], silent)


async def of_topic(engine: Engine, name: TopicName) -> Scope:
    """It or its partitions, which are loaded for the answer. NotFound without it."""
    parts = await topics.members(engine, name)
    return Scope(parts, parts, {})


async def gather(
    engine: Engine, scope: Scope, policy: Policy, value: Any, at_ms: int | None = None
) -> Effects:
    """What would go with ``value`` in force, as of now or ``at_ms``. What does not answer is not counted."""
    found = Effects(scope)
    asked, rest = scope.loaded[:ASKED_MAX], scope.loaded[ASKED_MAX:]
    found.failed.update(dict.fromkeys(map(str, rest), NOT_ASKED))
    measured = len(asked) <= MEASURED_MAX
    until_s = asyncio.get_running_loop().time() + ASKING_S

    async def ask(part: TopicName) -> None:
        args = api.PolicyEffect(part, policy.name, value, at_ms, measured)
        try:
            async with asyncio.timeout_at(until_s):
                found.answers[part] = await engine.call(api.POLICY_EFFECT, args)
        except NotFound:
            found.failed[str(part)] = "It is gone"
        except Exception as error:
            status, reason = describe(error)
            if status != 503:
                raise
            found.failed[str(part)] = reason

    await catalog.each(asked, ask)
    return found

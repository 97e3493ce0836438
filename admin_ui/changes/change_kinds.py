"""The kinds of change sets: for each, the right that an object needs, its preview, and exactly that change made.

They are the changes of single objects, so that a set does to each object what its own page would do.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from admin_ui.changes import definition_objects
from admin_ui.changes.definition_files import Defined
from admin_ui.confirming import Json
from admin_ui.policies import services as policies
from admin_ui.policies.selectors import OF_TOPICS, exact
from admin_ui.subscriptions import deletion
from admin_ui.subscriptions import services as cursors
from admin_ui.subscriptions.services import ChangeResult
from admin_ui.subscriptions.tokens import Confirmed
from admin_ui.topics import services as topics
from admin_ui.topics.services import TopicChange
from engine.admin.api.cursors import CursorChange, PreviewChange
from engine.auth.actions import Action
from engine.auth.resource_names import SubscriptionName
from engine.base.errors import Conflict, InvalidField, MagnetarError, NotReady
from engine.base.names import TopicName, split_partition
from engine.tenancy.policies.policy import Policy
from engine.tenancy.policies.table import BY_NAME
from engine.tenancy.topics import PARTITIONS_MAX
from gateway.clusters.cluster import Cluster
from gateway.http.auth.access import Need
from gateway.services.engine_link import Engine

ListName = Literal["topics", "subscriptions", "definitions"]
COUNT_MAX = (1 << 31) - 1
TIMESTAMP_MAX = (1 << 53) - 1


class ChangeTarget(NamedTuple):
    """One object: a topic, or a subscription of it."""

    topic: TopicName
    subscription: str = ""

    @property
    def needs(self) -> list[Need]:
        """The actions that changing it is, with their resources."""
        if self.subscription:
            return [(Action.CONSUME, SubscriptionName(self.topic, self.subscription))]
        return [(Action.TENANT_ADMIN, self.topic)]

    @property
    def place(self) -> tuple[str, str, str]:
        """Tenant, namespace and topic of the object."""
        whole = split_partition(self.topic.full)[0] or self.topic.full
        return self.topic.tenant, str(self.topic.namespace), whole


class DefinedTarget(NamedTuple):
    """One object of a file of definitions, and how it is ``wanted``."""

    defined: Defined
    wanted: Json

    @property
    def needs(self) -> list[Need]:
        return list(self.defined.needs(self.wanted))

    @property
    def place(self) -> tuple[str, str, str]:
        is_below = self.defined.kind in ("topic", "subscription")
        topic = self.defined.name if is_below else ""
        return self.defined.tenant, self.defined.namespace, topic


Target = ChangeTarget | DefinedTarget


class ObjectPlan(NamedTuple):
    """The preview of one object: what ``apply`` needs, None where nothing is to be done, and what it would do."""

    content: Json | None
    effect: Json


class Doing(NamedTuple):
    """The circumstances of the work on one object: its place, its user, and the arguments of the change."""

    cluster: Cluster
    engine: Engine
    user: str
    arguments: Json


@dataclass(frozen=True, slots=True)
class ChangeKind:
    """A kind of change. ``operation``: that of the same change of one object, under which the audit log has it."""

    of: ListName
    operation: str
    check: Callable[[Json], Json]
    """Returns the arguments that it has of a body. Raises InvalidField."""
    plan: Callable[[Doing, Any], Awaitable[ObjectPlan]]
    apply: Callable[[Doing, Any, Json], Awaitable[Json]]
    """Makes the planned change and returns what it did. Raises Conflict when the object is not as previewed."""

    def target(self, name: str, subscription: str, content: Json | None) -> Target:
        """Return the object of a set's item. Raises InvalidNameError, Conflict."""
        if self.of != "definitions":
            return ChangeTarget(TopicName.parse(name), subscription)
        if content is None:
            raise Conflict("It was as the file has it: compare the file again")
        return DefinedTarget(Defined(name, subscription), content["wanted"])


def _nothing(body: Json) -> Json:
    return {}


def _effect(
    *, messages: int | None = 0, entries: int | None = 0, exact: bool = True, **other: Any
) -> Json:
    """Return an effect: unread messages that are lost, in how many entries, and what else there is to say."""
    return {"messages": messages, "entries": entries, "exact": exact, **other}


def _topic_kind(
    change: TopicChange, operation: str, check: Callable[[Json], Json] = _nothing
) -> ChangeKind:
    async def plan(doing: Doing, target: ChangeTarget) -> ObjectPlan:
        count = doing.arguments.get("count")
        content, shown = await topics.plan(
            doing.engine, target.topic, change, doing.user, partitions=count
        )
        if change == "partitions":
            before, after = shown["partitions"], shown["partitions_after"]
            return ObjectPlan(content, _effect(before=before, after=after))
        clients = len(shown["producers"]) + sum(
            len(subscription["consumers"]) for subscription in shown["subscriptions"]
        )
        if change != "delete":
            return ObjectPlan(content, _effect(clients=clients))
        held = shown["subscriptions"]
        counts = [subscription["messages"] for subscription in held]
        return ObjectPlan(
            content,
            _effect(
                messages=None if None in counts else sum(counts),
                entries=sum(subscription["entries"] for subscription in held),
                exact=all(subscription["exact"] for subscription in held),
                bytes=shown["bytes"],
                clients=clients,
            ),
        )

    async def apply(doing: Doing, target: ChangeTarget, content: Json) -> Json:
        await topics.make_planned(doing.engine, target.topic, change, content)
        return {}

    return ChangeKind("topics", operation, check, plan, apply)


def _count(body: Json, high: int) -> Json:
    count = body.get("count")
    if type(count) is not int or not 1 <= count <= high:
        raise InvalidField("count", f"must be a whole number from 1 to {high}")
    return {"count": count}


def _policy_of(arguments: Json) -> Policy:
    return BY_NAME[arguments["policy"]]


def _policy_arguments(body: Json) -> Json:
    row = BY_NAME.get(body.get("policy") or "")
    if row is None or row not in OF_TOPICS:
        names = ", ".join(policy.name for policy in OF_TOPICS)
        raise InvalidField("policy", f"must be one of {names}")
    if "value" not in body:
        raise InvalidField("value", "must be given; null removes the topics' own value")
    if body["value"] is not None:
        row.read(body["value"])
    return {"policy": row.name, "value": body["value"]}


async def _plan_policy(doing: Doing, target: ChangeTarget) -> ObjectPlan:
    policy, value = _policy_of(doing.arguments), doing.arguments["value"]
    content, shown = await policies.plan(
        doing.cluster, doing.engine, target.topic, policy, doing.user, value
    )
    effects = shown["effects"] or {"entries": 0, "bytes": 0, "not_counted_total": 0}
    effect = _effect(
        messages=None if effects["entries"] else 0,
        entries=None if effects["not_counted_total"] else effects["entries"],
        bytes=effects["bytes"],
        before=exact(content["own"]),
        after=exact(content["value"]),
    )
    return ObjectPlan(None if content["own"] == content["value"] else content, effect)


async def _apply_policy(doing: Doing, target: ChangeTarget, content: Json) -> Json:
    policy = _policy_of(doing.arguments)
    await policies.make_planned(doing.cluster, doing.engine, target.topic, policy, content)
    return {}


def _cursor_kind(
    change: CursorChange, operation: str, check: Callable[[Json], Json] = _nothing
) -> ChangeKind:
    async def plan(doing: Doing, target: ChangeTarget) -> ObjectPlan:
        count, timestamp = doing.arguments.get("count"), doing.arguments.get("timestamp")
        args = PreviewChange(target.topic, target.subscription, change, count, timestamp)
        shown, confirmed = await cursors.plan(doing.engine, args, doing.user)
        nothing = shown["direction"] == "none"
        effect = _effect(
            messages=shown["lost"],
            entries=shown["lost_entries"],
            exact=shown["exact"],
            again=shown["again"],
            clients=len(shown["consumers"]),
        )
        return ObjectPlan(None if nothing else _asdict(confirmed), effect)

    async def apply(doing: Doing, target: ChangeTarget, content: Json) -> Json:
        body = _done(await cursors.apply(doing.engine, target.topic, Confirmed(**content)))
        names = ("id", "lost", "lost_entries", "again", "undo", "undo_until")
        return {name: body[name] for name in names if name in body}

    return ChangeKind("subscriptions", operation, check, plan, apply)


def _asdict(confirmed: Confirmed) -> Json:
    return {name: getattr(confirmed, name) for name in confirmed.__slots__}


def _done(result: ChangeResult) -> Json:
    """Return the body of a change that was made. Raises Conflict, and NotReady where that is not known."""
    if result.status == 200:
        return result.body
    error: MagnetarError = (Conflict if result.status == 409 else NotReady)(result.body["reason"])
    raise error


def _timestamp(body: Json) -> Json:
    timestamp = body.get("timestamp")
    if type(timestamp) is not int or not 0 <= timestamp <= TIMESTAMP_MAX:
        raise InvalidField("timestamp", f"must be milliseconds from 0 to {TIMESTAMP_MAX}")
    return {"timestamp": timestamp}


def _force(body: Json) -> Json:
    force = body.get("force", False)
    if type(force) is not bool:
        raise InvalidField("force", "must be true or false")
    return {"force": force}


async def _plan_deletion(doing: Doing, target: ChangeTarget) -> ObjectPlan:
    content, shown = await deletion.plan(
        *(doing.engine, target.topic, target.subscription, doing.user),
        force=doing.arguments["force"],
    )
    if shown["consumers"] and not doing.arguments["force"]:
        raise Conflict("Consumers are connected, and the change does not disconnect them")
    return ObjectPlan(
        content,
        _effect(
            messages=shown["messages"],
            entries=shown["entries"],
            exact=shown["exact"],
            clients=len(shown["consumers"]),
        ),
    )


async def _apply_deletion(doing: Doing, target: ChangeTarget, content: Json) -> Json:
    body = _done(
        await deletion.make_planned(doing.engine, target.topic, target.subscription, content)
    )
    return {"entries": body["entries"], "later": body["later"]}


def _by_file(body: Json) -> Json:
    raise InvalidField("kind", "definitions are applied from a file")


async def _plan_definition(doing: Doing, target: DefinedTarget) -> ObjectPlan:
    return ObjectPlan(
        *await definition_objects.plan(
            doing.cluster, doing.engine, doing.user, target.defined, target.wanted
        )
    )


async def _apply_definition(doing: Doing, target: DefinedTarget, content: Json) -> Json:
    return await definition_objects.make_planned(
        doing.cluster, doing.engine, target.defined, content
    )


KINDS = {
    "definitions": ChangeKind(
        "definitions", "applyDefinitions", _by_file, _plan_definition, _apply_definition
    ),
    "set-policy": ChangeKind(
        "topics", "setTopicPolicy", _policy_arguments, _plan_policy, _apply_policy
    ),
    "delete-topics": _topic_kind("delete", "deleteTopic"),
    "unload": _topic_kind("unload", "unloadTopic"),
    "add-partitions": _topic_kind(
        "partitions", "addPartitions", lambda body: _count(body, PARTITIONS_MAX)
    ),
    "skip-all": _cursor_kind("skip-all", "skipAll"),
    "skip": _cursor_kind("skip", "skip", lambda body: _count(body, COUNT_MAX)),
    "reset": _cursor_kind("reset", "reset", _timestamp),
    "delete-subscriptions": ChangeKind(
        "subscriptions", "deleteSubscription", _force, _plan_deletion, _apply_deletion
    ),
}
"""The kinds by name."""


def checked_arguments(kind: str, body: Json) -> Json:
    """Return the arguments that a change of this kind has of a body. Raises InvalidField."""
    known = KINDS.get(kind)
    if known is None:
        raise InvalidField("kind", f"must be one of {', '.join(KINDS)}")
    return known.check(body)

"""Change sets through the console's API on a real broker in this process: a set is previewed, confirmed by the digest
of exactly that, and made by a worker, object by object."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from admin_ui.changes import services, working
from admin_ui.models import AuditEntry, ChangeItem, ChangeSet, ChangeState
from engine.admin.api.arguments import EARLIEST_MESSAGE
from engine.admin.api.subscriptions import CREATE_SUBSCRIPTION, CreateSubscription
from engine.base.names import NamespaceName, TopicName
from gateway.jobs import background
from gateway.services.admin import existence, partitioned_topics, topics
from gateway.services.engine_link import Engine
from tests.support.admin.gateway_client import Answer, Gateway
from tests.support.waiting import until_blocking
from tests.unit.admin_ui.test_tenants import BenchLink, bench_link

NAMESPACE = NamespaceName.of("public", "default")
A, B, MANY = (NAMESPACE.topic(name) for name in ("a", "b", "many"))
SETS = "/api/v1/clusters/standalone/changes"
RETENTION = {"retentionTimeInMinutes": 5, "retentionSizeInMB": 10}
Call = Callable[..., Answer]


async def filled(engine: Engine) -> None:
    await partitioned_topics.create(engine, MANY, 2, {})
    for name in (A, B):
        await topics.create(engine, name, {})
        await engine.call(CREATE_SUBSCRIPTION, CreateSubscription(name, "s", EARLIEST_MESSAGE))


@pytest.fixture
def link() -> Iterator[BenchLink]:
    with bench_link(filled) as made:
        yield made


class Changes:
    """Calls about change sets; ``requested``: the sets that a worker was requested for."""

    def __init__(self, link: BenchLink, monkeypatch: pytest.MonkeyPatch) -> None:
        self.link = link
        self.call = Gateway(link.cluster)
        self.requested: list[str] = []
        monkeypatch.setattr(background, "request", lambda _, key: self.requested.append(key))

    def publish(self, name: TopicName, count: int) -> None:
        self.link.run(lambda engine: self.link.bench.publish(name, count))

    def work(self) -> None:
        """Do what workers were requested for."""
        while self.requested:
            working.perform(self.call.clusters, self.requested.pop(0))

    def create(self, kind: str, *objects: Any, **arguments: Any) -> dict[str, Any]:
        """Create a set of these objects, topics or pairs of topic and subscription, and preview it."""
        given = [
            {"topic": str(item)}
            if isinstance(item, TopicName)
            else {"topic": str(item[0]), "subscription": item[1]}
            for item in objects
        ]
        made = self.call("POST", SETS, {"kind": kind, "objects": given, **arguments})
        assert made.status == 201, made.json
        assert made.json["state"] == "planning"
        self.work()
        return self.get(made.json["id"])

    def get(self, set_id: str) -> dict[str, Any]:
        known: dict[str, Any] = self.call("GET", f"{SETS}/{set_id}").json
        return known

    def items(self, set_id: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.call("GET", f"{SETS}/{set_id}/items").json["rows"]
        return rows

    def post(self, made: dict[str, Any], verb: str) -> Answer:
        body = {"digest": made["digest"]} if verb == "confirm" else None
        return self.call("POST", f"{SETS}/{made['id']}/{verb}", body)

    def confirm(self, made: dict[str, Any]) -> dict[str, Any]:
        """Confirm a previewed set, have it made, and return it."""
        answer = self.post(made, "confirm")
        assert answer.status == 200, answer.json
        self.work()
        return self.get(made["id"])


@pytest.fixture
def changes(
    link: BenchLink, transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Changes]:
    made = Changes(link, monkeypatch)
    yield made
    made.call.close()


def counted(made: dict[str, Any]) -> dict[str, int]:
    return {state: count for state, count in made["counts"].items() if count}


def test_a_policy_is_set_on_each_topic_and_each_change_is_audited(changes: Changes) -> None:
    made = changes.create("set-policy", A, B, policy="retention", value=RETENTION)
    assert (made["state"], counted(made)) == ("planned", {"planned": 2})
    assert changes.items(made["id"])[0]["effect"]["after"] == RETENTION
    assert not AuditEntry.objects.filter(operation="setTopicPolicy").exists()
    done = changes.confirm(made)
    assert (done["state"], counted(done)) == ("finished", {"done": 2})
    entries = AuditEntry.objects.filter(operation="setTopicPolicy", request_id=made["id"])
    assert sorted((entry.topic, entry.status) for entry in entries) == [
        (str(A), 200),
        (str(B), 200),
    ]
    again = changes.create("set-policy", A, policy="retention", value=RETENTION)
    (item,) = changes.items(again["id"])
    assert (item["state"], item["reason"]) == ("refused", services.NOTHING)


def test_a_backlog_is_cleared_up_to_the_previewed_position_alone(changes: Changes) -> None:
    changes.publish(A, 3)
    made = changes.create("skip-all", (A, "s"), (B, "s"))
    assert counted(made) == {"planned": 1, "refused": 1}, "B has nothing to skip"
    assert made["totals"]["messages"] == 3
    changes.publish(A, 2)
    done = changes.confirm(made)
    assert counted(done) == {"done": 1, "refused": 1}
    assert changes.items(made["id"])[0]["result"]["lost"] == 3
    left = changes.create("skip-all", (A, "s"))
    assert left["totals"]["messages"] == 2, "what arrived after the preview is kept"


def test_a_topic_that_changed_since_the_preview_is_left_and_can_be_previewed_again(
    changes: Changes,
) -> None:
    changes.publish(A, 2)
    changes.publish(B, 3)
    made = changes.create("delete-topics", A, B)
    assert made["totals"]["messages"] == 5
    subscription = CreateSubscription(A, "late", EARLIEST_MESSAGE)
    changes.link.run(lambda engine: engine.call(CREATE_SUBSCRIPTION, subscription))
    changes.publish(A, 1)
    done = changes.confirm(made)
    assert counted(done) == {"done": 1, "failed": 1}
    assert changes.items(made["id"])[0]["reason"]
    assert done["totals"]["messages"] == 3, "what was not changed loses nothing"
    assert changes.post(done, "confirm").status == 409
    again = changes.post(done, "retry")
    assert (again.status, again.json["state"]) == (200, "planning")
    changes.work()
    planned = changes.get(made["id"])
    assert planned["totals"]["messages"] == 6, "of A alone: two subscriptions with three each"
    assert counted(changes.confirm(planned)) == {"done": 2}


def test_partitions_are_added_and_topics_without_partitions_refuse_it(changes: Changes) -> None:
    made = changes.create("add-partitions", MANY, A, count=4)
    assert [item["state"] for item in changes.items(made["id"])] == ["planned", "refused"]
    assert counted(changes.confirm(made)) == {"done": 1, "refused": 1}
    count = changes.link.run(lambda engine: existence.partitions_of(engine, MANY))
    assert count == 4


def test_topics_are_unloaded_and_subscriptions_deleted_and_reset(changes: Changes) -> None:
    changes.publish(A, 2)
    assert counted(changes.confirm(changes.create("unload", A))) == {"done": 1}
    assert counted(changes.confirm(changes.create("skip", (A, "s"), count=1))) == {"done": 1}
    back = changes.create("reset", (A, "s"), timestamp=0)
    assert back["totals"]["again"] == 1
    assert counted(changes.confirm(back)) == {"done": 1}
    gone = changes.create("delete-subscriptions", (A, "s"), (B, "s"))
    assert gone["totals"]["messages"] == 2
    assert counted(changes.confirm(gone)) == {"done": 2}


def test_only_what_was_previewed_is_confirmed(changes: Changes) -> None:
    made = changes.create("unload", A)
    other = changes.create("unload", B)
    assert changes.post({**made, "digest": other["digest"]}, "confirm").status == 409
    assert changes.get(made["id"])["state"] == "planned"
    assert changes.post(made, "stop").json["state"] == "cancelled"
    assert changes.post(made, "confirm").status == 409


def test_a_set_is_made_of_all_that_match_a_filter(changes: Changes) -> None:
    body = {"kind": "unload", "query": {"tenant": "nobody"}}
    refused = changes.call("POST", SETS, body)
    assert (refused.status, refused.json["reason"]) == (422, "No topics match the filter")
    made: list[Answer] = []

    def is_listed() -> bool:
        made.append(changes.call("POST", SETS, {"kind": "unload", "query": {"q": "default many"}}))
        return made[-1].status == 201

    until_blocking(is_listed)  # the collector reads the names in the background
    changes.work()
    assert [item["topic"] for item in changes.items(made[-1].json["id"])] == [str(MANY)]
    for wrong, field in (
        ({"kind": "unload"}, "query"),
        ({"kind": "nothing", "query": {}}, "kind"),
        ({"kind": "unload", "query": {"sort": "topic"}}, "query"),
        ({"kind": "skip", "query": {}}, "count"),
        ({"kind": "reset", "query": {}}, "timestamp"),
        ({"kind": "reset", "query": {}, "timestamp": 1 << 53}, "timestamp"),
        ({"kind": "set-policy", "query": {}, "policy": "x", "value": 1}, "policy"),
        ({"kind": "set-policy", "query": {}, "policy": "retention"}, "value"),
        ({"kind": "skip-all", "objects": [{"topic": str(A)}]}, "objects"),
        ({"kind": "unload", "objects": [{"topic": str(A)}] * 2}, "objects"),
        ({"kind": "unload", "objects": [{"topic": str(A)}, {"topic": "a"}]}, "objects"),
    ):
        answer = changes.call("POST", SETS, wrong)
        assert (answer.status, answer.json["field"]) == (400, field), answer.json


def test_a_worker_that_is_lost_leaves_what_it_was_changing_as_not_known(changes: Changes) -> None:
    made = changes.create("unload", A, B)
    assert changes.post(made, "confirm").status == 200
    claimed = services.claim(set_id=made["id"])
    assert claimed is not None
    assert services.claim(set_id=made["id"]) is None, "another worker has it"
    (item,) = services.next_items(claimed, 1)
    ChangeSet.objects.update(lease_until_ms=1)
    assert services.unclaimed() == [made["id"]]
    assert services.unclaimed() == [], "a worker was requested just now"
    working.perform(changes.call.clusters, made["id"])
    assert counted(changes.get(made["id"])) == {"done": 1, "unknown": 1}
    assert ChangeItem.objects.get(pk=item.pk).reason == services.LOST
    item.state = "done"
    assert not services.store(claimed, [item]), "a late outcome changes nothing"


def test_a_running_set_is_stopped_and_continued(changes: Changes) -> None:
    made = changes.create("unload", A, B)
    changes.post(made, "confirm")
    claimed = services.claim(set_id=made["id"])
    assert claimed is not None
    (item,) = services.next_items(claimed, 1)
    assert changes.post(made, "stop").json["stopping"]
    item.state = "done"
    assert services.store(claimed, [item])
    assert services.next_items(claimed, 1) == []
    services.end(claimed)
    stopped = changes.get(made["id"])
    assert (stopped["state"], counted(stopped)) == ("stopped", {"done": 1, "planned": 1})
    changes.requested.clear()
    assert counted(changes.confirm(stopped)) == {"done": 2}


def test_a_set_that_is_stopped_during_its_last_object_is_finished(changes: Changes) -> None:
    made = changes.create("unload", A)
    changes.post(made, "confirm")
    claimed = services.claim(set_id=made["id"])
    assert claimed is not None
    (item,) = services.next_items(claimed, 1)
    assert changes.post(made, "stop").json["stopping"]
    item.state = "done"
    assert services.store(claimed, [item])
    services.end(claimed)
    ended = changes.get(made["id"])
    assert (ended["state"], counted(ended)) == ("finished", {"done": 1})


def test_sets_are_listed_and_a_missing_one_is_not_found(changes: Changes) -> None:
    made = changes.create("unload", A)
    assert [row["id"] for row in changes.call("GET", SETS).json["rows"]] == [made["id"]]
    assert changes.call("GET", f"{SETS}/none").status == 404
    assert changes.call("GET", f"{SETS}/{made['id']}/items?state=new").status == 400


def test_a_role_that_makes_many_sets_removes_no_preview_of_another(
    changes: Changes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "SETS_PER_ROLE_MAX", 3)

    def made(role: str) -> str:
        known = services.create(targets=[], kind="unload", arguments={}, role=role)
        ChangeSet.objects.filter(id=known.id).update(state=ChangeState.PLANNED)
        return known.id

    theirs = made("theirs")
    own = [made("own") for _ in range(8)]
    kept = set(ChangeSet.objects.values_list("id", flat=True))
    assert kept >= {theirs, *own[-3:]}
    assert len(kept) <= 5, "the oldest of the role itself are removed"

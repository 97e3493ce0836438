"""Apache's workers are the consumers of the coordination topic that are none of ours."""

from typing import Any

from engine.functions.worker.apaches.apache_members import ApacheWorker, membership, worker_of


def consumer(name: str, **metadata: str) -> dict[str, Any]:
    return {"consumerName": name, "metadata": {"id": name, **metadata}}


def stats(active: str, *consumers: dict[str, Any]) -> dict[str, Any]:
    subscription = {"activeConsumerName": active, "consumers": list(consumers)}
    return {"subscriptions": {"participants": subscription}}


def test_the_label_of_a_worker_may_have_colons_in_its_id() -> None:
    assert worker_of("c-a-fw-h-1:h:1") == ApacheWorker("c-a-fw-h-1", "h", 1)
    assert worker_of("a:b:h:1") == ApacheWorker("a:b", "h", 1)
    assert [worker_of(text) for text in ("", "a", "a:1", "a:h:x", ":h:1")] == [None] * 5


def test_our_workers_are_left_out_and_lead_nothing_of_apaches() -> None:
    ours, theirs = consumer("w:h:1", magnetar="true"), consumer("a:h:2")
    assert membership({}).workers == {}
    members = membership(stats("w:h:1", ours, theirs, consumer("stranger")))
    assert (dict(members.workers), members.leader) == ({"a": ApacheWorker("a", "h", 2)}, None)
    assert membership(stats("a:h:2", ours, theirs)).leader == ApacheWorker("a", "h", 2)

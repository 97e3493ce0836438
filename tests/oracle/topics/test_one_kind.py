"""A broker that serves persistent topics only: both give clients of the other kind the same answers."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.bench.contenders import apache
from tests.oracle.client.talk import Place, Talk, on_both
from tests.oracle.conftest import Side
from tests.oracle.servers import LEAN_PEER
from tests.support.instance import running_instance

TOPICS = ("persistent://public/default/kind", "non-persistent://public/default/kind")


@pytest.fixture(scope="module")
def one_kind(
    apache_at_hand: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Side, Side]]:
    """Apache's broker and ours, without non-persistent topics. Apache's without persistent ones is never healthy."""
    work = tmp_path_factory.mktemp("kinds")
    with ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in LEAN_PEER.items():
                patch.setenv(name, value)
            theirs = stack.enter_context(apache(work, {"enableNonPersistentTopics": "false"}))
        instance = stack.enter_context(
            running_instance(work / "ours", MAGNETAR_ENABLE_NON_PERSISTENT_TOPICS="false")
        )
        yield Side("apache", theirs.url, theirs.http), Side("ours", instance.url, instance.http)


def met(side: Side) -> list[Any]:
    """Return the answers to a lookup, a producer and a consumer of a topic of each kind. Apache's broker calls both
    kinds persistent when it refuses them."""
    results: list[Any] = []
    for topic in TOPICS:
        place = Place(side, topic)
        talk = Talk(place)
        answers = (
            talk.ask("lookupTopic", topic=topic)[-1],
            talk.ask("producer", topic=topic, producer_id=1)[-1],
            talk.subscribe(2)[-1],
        )
        results += [
            [part.replace("non-persistent", "persistent") for part in answer] for answer in answers
        ]
        place.close()
    return results


@pytest.mark.timeout(600)
def test_a_client_of_the_other_kind_receives_the_same_refusal(one_kind: tuple[Side, Side]) -> None:
    theirs, ours = on_both(one_kind, met)
    assert ours == theirs
    assert ["ERROR" in answer for answer in ours].count(True) == 2, ours

"""Our broker on three Apache bookies: one is away under load, nothing is lost, our own tools read the topic."""

import time
from collections.abc import Iterator

import pytest

from spark_jobs.pulsar_source.batch import read_range
from spark_jobs.pulsar_source.options import parse
from spark_jobs.pulsar_source.planning import plan_topics
from tests.crash.load import Load, finish
from tests.oracle.servers import ApacheBookies, OurBroker
from tests.oracle.story import Story

pytestmark = [pytest.mark.slow]

NAMESPACE = "persistent://public/default"


@pytest.fixture(scope="module")
def broker(
    apache_bookies: ApacheBookies, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OurBroker]:
    made = OurBroker(tmp_path_factory.mktemp("our-broker"), "broker", apache_bookies.zk)
    try:
        made.start()
        yield made
        made.stop()
    finally:
        made.kill()


def stored(topic: str, zk: str) -> list[tuple[int, int]]:
    """Sequence ids and sizes of all messages, read past the broker by the Spark data source's own code."""
    options = parse({"topic": topic, "metadata.url": f"zk:{zk}"})
    messages: list[tuple[int, int]] = []
    for part in plan_topics(options):
        for batch in read_range(options, part):
            messages += zip(
                batch["sequence_id"].to_pylist(), batch["value_bytes"].to_pylist(), strict=True
            )
    return messages


def test_publishing_goes_on_while_one_of_three_bookies_is_stopped_and_returns(
    broker: OurBroker, apache_bookies: ApacheBookies
) -> None:
    load = Load(broker.url, f"{NAMESPACE}/one-away", rate_max=2000)
    try:
        load.wait_confirmed(200, 30)
        victim = apache_bookies.each[1]
        victim.stop()
        load.wait_confirmed(500, 30)
        victim.start()
        load.wait_confirmed(500, 30)
    except BaseException:
        load.close()
        raise
    assert finish(load) > 1200


def test_a_topic_goes_on_after_the_broker_was_killed(broker: OurBroker) -> None:
    story = Story(f"{NAMESPACE}/broker-killed")
    story.subscribe(broker.url)
    story.publish(broker.url, 60)
    story.publish(broker.url, 10, batched=True)
    story.acknowledge(broker.url, "up-to", [24])
    story.acknowledge(broker.url, "here and/there", [1, 3, 4, 20])
    time.sleep(1.3)  # acknowledgements are written behind by up to a second
    broker.kill()
    broker.start()
    story.verify(broker.url)
    story.publish(broker.url, 5)
    story.verify(broker.url)


def test_our_tools_read_a_topic_past_the_broker(
    broker: OurBroker, apache_bookies: ApacheBookies
) -> None:
    """Read after the broker has closed its ledgers: of open ones the tools see only what is known to be confirmed."""
    story = Story(f"{NAMESPACE}/read-by-tools")
    story.subscribe(broker.url)
    story.publish(broker.url, 500)
    story.publish(broker.url, 20, batched=True)
    broker.stop()
    numbers = [*enumerate(range(500)), *enumerate(range(500, 520))]  # each producer counts anew
    expected = [(sequence, len(b"%d" % number)) for sequence, number in numbers]
    assert stored(story.topic, apache_bookies.zk) == expected
    broker.start()
    story.verify(broker.url)

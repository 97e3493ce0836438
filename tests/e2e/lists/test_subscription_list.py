"""The list of all subscriptions and the target of an age, in a real browser on a real instance."""

import re
import time
from collections.abc import Iterator

import pulsar
import pytest
from playwright.sync_api import Page, expect

from tests.e2e.axe import violations
from tests.support.instance import Instance
from tests.support.waiting import until_blocking

TOPIC = "persistent://public/default/aged"
REST = "/api/v1/clusters/standalone"
TARGET = f"{REST}/topics/persistent/public/default/aged/subscriptions/slow/age-target"


@pytest.fixture(scope="module")
def published_ms(instance: Instance) -> Iterator[int]:
    """Publish time of the first message that ``slow`` has not acknowledged; ``quick`` has acknowledged all."""
    client = pulsar.Client(instance.url)
    slow, quick = (client.subscribe(TOPIC, name) for name in ("slow", "quick"))
    producer = client.create_producer(TOPIC)
    for number in range(5):
        producer.send(b"%d" % number)
    slow.acknowledge(slow.receive(10_000))
    for _ in range(5):
        quick.acknowledge(quick.receive(10_000))
    first = slow.receive(10_000)
    yield first.publish_timestamp()
    client.close()


def row(instance: Instance, name: str) -> dict[str, object]:
    rows = instance.rest("GET", f"{REST}/subscriptions?q=aged")[1]["rows"]
    return next((listed for listed in rows if listed["subscription"] == name), {})


def test_the_age_is_that_of_the_first_message_that_a_reader_finds_unacknowledged(
    instance: Instance, published_ms: int
) -> None:
    until_blocking(lambda: row(instance, "slow").get("oldest_at") == published_ms)
    until_blocking(lambda: row(instance, "quick").get("oldest_at") == 0)


@pytest.mark.timeout(200)
def test_a_target_is_set_passed_shown_and_removed(
    page: Page, instance: Instance, published_ms: int, axe_source: str
) -> None:
    page.goto("/c/standalone/t/public/default/aged/subscriptions")
    page.get_by_role("button", name="Target age of slow").click()
    dialog = page.get_by_role("dialog", name="Target age")
    expect(dialog).to_contain_text("It has no target.")
    dialog.get_by_label("Never older than").fill("1")
    dialog.get_by_label("Unit").select_option("seconds")
    expect(dialog).to_contain_text("age-target")
    page.evaluate(axe_source)
    assert violations(page, "target age", "[role=dialog]") == []
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_be_hidden()
    assert instance.rest("GET", TARGET)[1]["seconds"] == 1
    until_blocking(lambda: time.time() * 1000 > published_ms + 1_000)

    page.goto("/c/standalone/subscriptions?q=aged")
    grid = page.get_by_role("grid")
    slow = grid.get_by_role("row").filter(has_text="slow")
    expect(slow).to_contain_text(re.compile("late", re.IGNORECASE))
    expect(grid.get_by_role("row").filter(has_text="quick")).to_be_visible()
    page.evaluate(axe_source)
    assert violations(page, "subscriptions", "main") == []
    page.get_by_label("Late").check()
    expect(grid.get_by_role("row").filter(has_text="quick")).to_have_count(0)
    expect(slow).to_be_visible()

    page.goto("/c/standalone/t/public/default/aged/subscriptions")
    page.get_by_role("button", name="Target age of slow").click()
    page.get_by_role("button", name="Remove the target").click()
    expect(page.get_by_role("dialog")).to_be_hidden()
    assert instance.rest("GET", TARGET)[1]["seconds"] is None

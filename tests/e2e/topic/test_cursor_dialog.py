"""A subscription's position changed in a browser: the change is the one that was previewed, and can be undone."""

import time
from collections.abc import Iterator

import pulsar
import pytest
from playwright.sync_api import Page, expect

from tests.support.instance import Instance

ADMIN = "/admin/v2/persistent/public/default"
WAIT_MS = 30_000


@pytest.fixture(scope="module")
def client(instance: Instance) -> Iterator[pulsar.Client]:
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    new_client = pulsar.Client(instance.url, logger=quiet)
    yield new_client
    new_client.close()


def publish(client: pulsar.Client, topic: str, count: int) -> None:
    producer = client.create_producer(f"persistent://public/default/{topic}")
    for _ in range(count):
        producer.send_async(b"v", lambda *_: None)
    producer.flush()
    producer.close()


def opened(instance: Instance, client: pulsar.Client, page: Page, topic: str, count: int) -> None:
    """Open the page of the topic's subscriptions; all ``count`` messages are in the backlog of ``s``."""
    retention = {"retentionTimeInMinutes": 600, "retentionSizeInMB": 100}
    instance.rest("POST", "/admin/v2/namespaces/public/default/retention", retention)
    earliest = {"ledgerId": -1, "entryId": -1}
    instance.rest("PUT", f"{ADMIN}/{topic}/subscription/s", earliest)
    publish(client, topic, count)
    page.goto(f"/c/standalone/t/public/default/{topic}/subscriptions")


def red(page: Page, name: str) -> bool:
    """Return whether a button warns: its background is mostly red."""
    colour: str = page.get_by_role("button", name=name).evaluate(
        "element => getComputedStyle(element).backgroundColor"
    )
    r, g, b = [int(part) for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]
    return r > 2 * max(g, b)


def test_messages_published_while_the_dialog_is_open_are_kept_and_a_skip_is_undone(
    instance: Instance, client: pulsar.Client, page: Page
) -> None:
    opened(instance, client, page, "dialog", 300)
    page.get_by_role("button", name="Skip all… on s").click(timeout=WAIT_MS)
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("300 unacknowledged messages will be discarded", timeout=WAIT_MS)
    publish(client, "dialog", 50)
    assert red(page, "Discard 300 messages")
    page.get_by_role("button", name="Discard 300 messages").click()
    expect(dialog).to_contain_text("300 messages discarded", timeout=WAIT_MS)
    stats = instance.rest("GET", f"{ADMIN}/dialog/stats")[1]
    assert 1 <= stats["subscriptions"]["s"]["msgBacklog"] <= 50
    page.get_by_role("button", name="Close").last.click()
    expect(page.get_by_text("skipped all messages (300 messages discarded)")).to_be_visible()
    page.get_by_role("button", name="Undo the last change of s…").click()
    expect(dialog).to_contain_text("300 messages that were acknowledged", timeout=WAIT_MS)
    assert not red(page, "Deliver 300 messages again")
    page.get_by_role("button", name="Deliver 300 messages again").click()
    expect(dialog).to_contain_text("300 messages to be delivered again", timeout=WAIT_MS)
    page.get_by_role("button", name="Undo", exact=True).click()
    expect(dialog).to_contain_text("300 messages discarded", timeout=WAIT_MS)


def test_a_reset_that_discards_messages_has_a_red_button(
    instance: Instance, client: pulsar.Client, page: Page
) -> None:
    opened(instance, client, page, "ahead", 100)
    page.get_by_role("button", name="Reset… on s").click(timeout=WAIT_MS)
    ahead = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() + 2 * 86_400))
    page.get_by_label("Move to messages published from").fill(ahead)
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("100 unacknowledged messages will be discarded", timeout=WAIT_MS)
    assert red(page, "Discard 100 messages")


def test_a_change_made_while_the_dialog_is_open_is_shown_and_previewed_again(
    instance: Instance, client: pulsar.Client, page: Page
) -> None:
    opened(instance, client, page, "moved", 100)
    instance.rest("POST", f"{ADMIN}/moved/subscription/s/skip_all")
    publish(client, "moved", 20)
    page.get_by_role("button", name="Skip all… on s").click(timeout=WAIT_MS)
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("20 unacknowledged messages will be discarded", timeout=WAIT_MS)
    instance.rest("POST", f"{ADMIN}/moved/subscription/s/resetcursor/0")
    page.get_by_role("button", name="Discard 20 messages").click()
    expect(dialog).to_contain_text("Nothing was changed", timeout=WAIT_MS)
    expect(dialog).to_contain_text("moved since the preview")
    page.get_by_role("button", name="Preview again").click()
    expect(dialog).to_contain_text("120 unacknowledged messages will be discarded", timeout=WAIT_MS)
    expect(page.get_by_role("button", name="Discard 120 messages")).to_be_enabled()


def test_skipping_a_number_is_not_offered_on_partitioned_topics(
    instance: Instance, client: pulsar.Client, page: Page
) -> None:
    instance.rest("PUT", f"{ADMIN}/parted/partitions", 2)
    opened(instance, client, page, "parted", 10)
    expect(page.get_by_role("button", name="Skip all… on s")).to_be_visible(timeout=WAIT_MS)
    expect(page.get_by_role("button", name="Skip… on s")).to_have_count(0)


def test_a_disconnected_consumer_reconnects_and_its_subscription_is_deleted(
    instance: Instance, client: pulsar.Client, page: Page
) -> None:
    topic = "persistent://public/default/ended"
    consumer = client.subscribe(topic, "s", consumer_name="worker")
    publish(client, "ended", 20)
    page.goto("/c/standalone/t/public/default/ended/subscriptions")
    dialog = page.get_by_role("dialog")
    page.get_by_role("button", name="Disconnect worker…").click(timeout=WAIT_MS)
    expect(dialog).to_contain_text("may reconnect at once", timeout=WAIT_MS)
    dialog.get_by_role("button", name="Disconnect", exact=True).click()
    expect(dialog).to_contain_text("The consumer was disconnected", timeout=WAIT_MS)
    dialog.get_by_role("button", name="Close").last.click()
    assert consumer.receive(timeout_millis=WAIT_MS).data() == b"v", "its client did not reconnect"

    page.get_by_role("button", name="Delete… on s").click()
    expect(dialog).to_contain_text("1 consumer is connected", timeout=WAIT_MS)
    expect(
        dialog.get_by_role("button", name="Delete with 20 unacknowledged messages")
    ).to_be_disabled()
    consumer.close()
    publish(client, "ended", 5)
    dialog.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Delete… on s").click()
    expect(dialog).to_contain_text("25 unacknowledged messages are lost", timeout=WAIT_MS)
    publish(client, "ended", 1)
    delete = dialog.get_by_role("button", name="Delete with 25 unacknowledged messages")
    expect(delete).to_be_enabled(timeout=WAIT_MS)
    delete.click()
    expect(dialog).to_contain_text("published since the preview", timeout=WAIT_MS)
    dialog.get_by_role("button", name="Close").last.click()
    expect(page.get_by_text("No subscription", exact=True)).to_be_visible(timeout=WAIT_MS)
    assert instance.rest("GET", f"{ADMIN}/ended/subscriptions")[1] == []

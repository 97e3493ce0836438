"""Holders of messages in a browser: consumers of messages and keys, and a delayed message that is cancelled."""

from datetime import timedelta

import pulsar
from playwright.sync_api import Page, expect

from tests.e2e.axe import violations
from tests.support.instance import Instance

ADMIN = "/admin/v2/persistent/public/default"
WAIT_MS = 30_000


def test_a_message_is_found_at_its_consumer_and_a_delayed_one_is_cancelled(
    instance: Instance, page: Page, axe_source: str
) -> None:
    page.add_init_script(axe_source)
    instance.rest("PUT", f"{ADMIN}/held")
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(instance.url, logger=quiet)
    topic = "persistent://public/default/held"
    try:
        consumers = {
            name: client.subscribe(
                topic,
                "s",
                consumer_type=pulsar.ConsumerType.KeyShared,
                consumer_name=name,
                receiver_queue_size=100,
            )
            for name in ("left", "right")
        }
        producer = client.create_producer(topic)
        for i in range(10):
            producer.send(b"v", partition_key=f"k{i}")
        for hours in (2, 1):
            producer.send(b"later", partition_key="k0", deliver_after=timedelta(hours=hours))
        holder = next(name for name, reader in consumers.items() if _receives(reader, "k0"))
        page.goto("/c/standalone/t/public/default/held/subscriptions")
        page.get_by_text("Who holds what").click(timeout=WAIT_MS)
        held = page.get_by_role("table", name="Unacknowledged by consumer").locator("tbody tr")
        expect(held).to_have_count(2, timeout=WAIT_MS)
        unacked = page.get_by_role("table", name="Unacknowledged messages, oldest first")
        expect(unacked.locator("tbody tr")).to_have_count(10, timeout=WAIT_MS)
        page.get_by_label("Which consumer does a key go to?").fill("k0")
        expect(page.get_by_text(f"goes to {holder} (")).to_be_visible(timeout=WAIT_MS)
        assert violations(page, "who holds what", "main") == []

        delayed = page.get_by_role("table", name="Delayed messages by due time")
        rows = delayed.locator("tbody tr")
        expect(rows).to_have_count(2, timeout=WAIT_MS)
        cancelled = rows.first.get_by_role("link").inner_text()
        rows.first.get_by_role("button").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("It would be delivered at", timeout=WAIT_MS)
        dialog.get_by_role("button", name="Cancel the delivery").click()
        expect(dialog).to_contain_text(f"message {cancelled} is acknowledged", timeout=WAIT_MS)
        dialog.get_by_role("button", name="Close", exact=True).last.click()
        expect(rows).to_have_count(1, timeout=WAIT_MS)
        expect(rows.first).not_to_contain_text(cancelled)

        page.goto(f"/c/standalone/t/public/default/held/messages/{cancelled}")
        place = page.get_by_role("table", name="The message at each subscription")
        expect(place).to_contain_text("acknowledged", timeout=WAIT_MS)
        assert violations(page, "the holders of a message", "main") == []
    finally:
        client.close()


def _receives(consumer: pulsar.Consumer, key: str) -> bool:
    """Return whether a consumer is sent a message with ``key``; nothing is acknowledged."""
    keys = set()
    try:
        while True:
            keys.add(consumer.receive(timeout_millis=2_000).partition_key())
    except pulsar.Timeout:
        return key in keys

"""Messages of a topic in a browser: those shown are those stored, and reading them leaves no trace."""

import json
import re

import pulsar
from playwright.sync_api import Page, expect

from tests.e2e.axe import violations
from tests.support.instance import Instance
from tests.support.waiting import until_blocking

ADMIN = "/admin/v2/persistent/public/default"
TOPIC = "browsed"
COUNT = 150
BIG = 9_007_199_254_740_993
WAIT_MS = 30_000


def test_messages_are_found_opened_and_shown_as_they_are_stored(
    instance: Instance, page: Page, axe_source: str
) -> None:
    page.add_init_script(axe_source)
    instance.rest("PUT", f"{ADMIN}/{TOPIC}/partitions", 2)
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(instance.url, logger=quiet)
    try:
        producer = client.create_producer(f"persistent://public/default/{TOPIC}")
        for i in range(COUNT):
            value = json.dumps({"id": BIG + i, "note": "<b>bold</b>"}).encode()
            producer.send(value, partition_key=f"k{i}", properties={"odd": str(i % 2)})
    finally:
        client.close()
    page.goto(f"/c/standalone/t/public/default/{TOPIC}/messages")
    rows = page.get_by_role("table", name="Messages").locator("tbody tr")
    expect(rows).to_have_count(50, timeout=WAIT_MS)
    # The last two may be of the same millisecond, in two partitions.
    expect(rows.first).to_contain_text(re.compile(f"k({COUNT - 1}|{COUNT - 2})"))
    for shown in (100, COUNT):
        page.get_by_role("button", name="More").click()
        expect(rows).to_have_count(shown, timeout=WAIT_MS)
    expect(page.get_by_role("status").last).to_contain_text(f"{COUNT} messages shown of {COUNT}")
    keys = {re.sub(r"\D", "", text) for text in rows.locator("td:nth-child(3)").all_inner_texts()}
    assert keys == {str(i) for i in range(COUNT)}, "each message once"

    page.get_by_text("Conditions").click()
    page.get_by_label("JSON path").fill("$.id")
    page.get_by_label("Value at the path").fill(str(BIG + 7))
    page.get_by_role("button", name="Read", exact=True).click()
    expect(rows).to_have_count(1, timeout=WAIT_MS)
    assert violations(page, "messages", "main") == []
    rows.first.get_by_role("link").click()
    value = page.get_by_role("region", name="The value")
    expect(value).to_contain_text(str(BIG + 7), timeout=WAIT_MS)
    expect(value).to_contain_text("<b>bold</b>")
    assert violations(page, "messages", "main") == []
    page.reload()
    expect(value).to_contain_text(str(BIG + 7), timeout=WAIT_MS)

    page.goto(f"/c/standalone/t/public/default/{TOPIC}/messages?start=earliest&property=odd%3D1")
    expect(rows).to_have_count(50, timeout=WAIT_MS)
    page.get_by_role("button", name="Go on").click()
    expect(rows).to_have_count(COUNT // 2, timeout=WAIT_MS)
    with page.expect_download(timeout=WAIT_MS) as download:
        page.get_by_role("button", name="Export").click()
    lines = download.value.path().read_text().splitlines()
    odd = {(f"k{i}", BIG + i) for i in range(1, COUNT, 2)}
    assert {(row["key"], row["value"]["id"]) for row in map(json.loads, lines)} == odd
    expect(page.get_by_text(f"{COUNT // 2} messages of {COUNT} looked at")).to_be_visible()
    assert violations(page, "messages", "main") == []
    for partition in range(2):
        stats = instance.rest("GET", f"{ADMIN}/{TOPIC}-partition-{partition}/stats")[1]
        assert stats["subscriptions"] == {}


def test_the_latest_value_of_each_key_is_one_row_and_a_deleted_key_none(
    instance: Instance, page: Page, axe_source: str
) -> None:
    page.add_init_script(axe_source)
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(instance.url, logger=quiet)
    try:
        producer = client.create_producer("persistent://public/default/keyed")
        for i in range(60):
            producer.send(f"first {i}".encode(), partition_key=f"k{i}")
        producer.send(b"second", partition_key="k7")
        producer.send(b"", partition_key="k8")
        page.goto("/c/standalone/t/public/default/keyed/messages")
        page.get_by_role("checkbox", name="Latest value per key").check(timeout=WAIT_MS)
        page.get_by_role("button", name="Read", exact=True).click()
        rows = page.get_by_role("table", name="Messages").locator("tbody tr")
        status = page.get_by_role("status").last
        expect(status).to_contain_text(
            "59 keys shown, 1 deleted or not matching, of 62 messages looked at", timeout=WAIT_MS
        )
        expect(status).to_contain_text("It was not compacted")
        expect(status).to_contain_text("These are the latest values.")
        expect(rows.filter(has_text="k7")).to_contain_text("second")
        expect(rows.filter(has_text="first 7")).to_have_count(0)
        assert violations(page, "latest values", "main") == []
        assert instance.rest("PUT", f"{ADMIN}/keyed/compaction")[0] == 204
        until_blocking(
            lambda: instance.rest("GET", f"{ADMIN}/keyed/compaction")[1]["status"] == "SUCCESS"
        )
        producer.send(b"third", partition_key="k7")
        # The link is the view: it has the switch.
        page.reload()
        expect(page.get_by_role("checkbox", name="Latest value per key")).to_be_checked(
            timeout=WAIT_MS
        )
        expect(status).to_contain_text("It was compacted up to", timeout=WAIT_MS)
        expect(status).to_contain_text("59 keys shown, 0 deleted or not matching, of 60 messages")
        expect(rows.filter(has_text="k7")).to_contain_text("third")
        with page.expect_download(timeout=WAIT_MS) as download:
            page.get_by_role("button", name="Export").click()
        lines = download.value.path().read_text().splitlines()
        values = {row["key"]: row["value"] for row in map(json.loads, lines)}
        assert values == {f"k{i}": f"first {i}" for i in range(60) if i != 8} | {"k7": "third"}
        page.get_by_text("Conditions").click()
        page.get_by_label("Key", exact=True).fill("k8")
        page.get_by_role("button", name="Read", exact=True).click()
        expect(page.get_by_text("No message matches so far")).to_be_visible(timeout=WAIT_MS)
    finally:
        client.close()


def test_a_tail_shows_what_is_published_and_counts_the_rest(
    instance: Instance, page: Page, axe_source: str
) -> None:
    page.add_init_script(axe_source)
    instance.rest("PUT", f"{ADMIN}/followed")
    page.goto("/c/standalone/t/public/default/followed/messages")
    page.get_by_role("link", name="Live tail").click(timeout=WAIT_MS)
    counts = page.locator("[data-tail-counts]")
    expect(counts).to_contain_text("Shown 0 of 0 since", timeout=WAIT_MS)
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(instance.url, logger=quiet)
    try:
        producer = client.create_producer("persistent://public/default/followed")
        rows = page.get_by_role("table", name="Messages").locator("tbody tr")
        for i in range(3):
            producer.send(f"<b>{i}</b>".encode(), partition_key=f"k{i}")
        expect(rows).to_have_count(3, timeout=WAIT_MS)
        expect(rows.first).to_contain_text("<b>2</b>")
        expect(counts).to_contain_text("Shown 3 of 3 since")
        assert violations(page, "the tail", "main") == []
        page.get_by_role("button", name="Pause").click()
        expect(counts).to_contain_text("Paused", timeout=WAIT_MS)
        for _ in range(200):
            producer.send_async(b"burst", callback=lambda *_: None)
        producer.flush()
        expect(counts).to_contain_text("Shown 3 of 203 since", timeout=WAIT_MS)
        expect(counts).to_contain_text("200 passed over")
        page.goto("/c/standalone/t/public/default/followed/tail?key=b")
        expect(counts).to_contain_text("Shown 0 of 0 since", timeout=WAIT_MS)
        for key in ("a", "b", "c"):
            producer.send(b"keyed", partition_key=key)
        expect(counts).to_contain_text("Shown 1 of 3 since", timeout=WAIT_MS)
        expect(counts).to_contain_text("2 did not match")
    finally:
        client.close()
    stats = instance.rest("GET", f"{ADMIN}/followed/stats")[1]
    assert stats["subscriptions"] == {}

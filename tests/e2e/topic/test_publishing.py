"""Messages published in a browser: one, one again, and lines of JSON, each checked by the topic's schema first."""

import json
import re
from pathlib import Path

import pulsar
from playwright.sync_api import Page, expect

from tests.e2e.axe import violations
from tests.support.instance import Instance

ADMIN = "/admin/v2/persistent/public/default"
SCHEMAS = "/admin/v2/schemas/public/default"
TOPIC = "published"
BIG = 9_007_199_254_740_993
WAIT_MS = 30_000
PUBLISHED = re.compile(r"^message \d")
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": "string"}],
}


def test_messages_are_checked_published_and_sent_again(
    instance: Instance, page: Page, axe_source: str, tmp_path: Path
) -> None:
    page.add_init_script(axe_source)
    instance.rest("PUT", f"{ADMIN}/{TOPIC}/partitions", 2)
    definition = {"type": "AVRO", "schema": json.dumps(ORDER), "properties": {}}
    instance.rest("POST", f"{SCHEMAS}/{TOPIC}/schema", definition)
    page.goto(f"/c/standalone/t/public/default/{TOPIC}/messages")
    page.get_by_role("link", name="Publish").click()
    value = page.get_by_label("Text of the value")
    value.fill('{"id": "one", "note": ""}', timeout=WAIT_MS)
    page.get_by_role("button", name="Check").click()
    main = page.locator("main")
    expect(main).to_contain_text("value.id", timeout=WAIT_MS)
    value.fill(json.dumps({"id": BIG, "note": "<b>bold</b>"}))
    page.get_by_label("Key", exact=True).fill("k1")
    page.get_by_label("Properties").fill("region=eu")
    assert violations(page, "publishing", "main") == []
    page.get_by_role("button", name="Publish", exact=True).click()
    page.get_by_role("link", name=PUBLISHED).click(timeout=WAIT_MS)
    shown = page.get_by_role("region", name="The value")
    expect(shown).to_contain_text(str(BIG), timeout=WAIT_MS)
    expect(main).to_contain_text("region")

    page.get_by_role("link", name="Edit and send again").click()
    expect(value).to_have_value(json.dumps({"id": BIG, "note": "<b>bold</b>"}), timeout=WAIT_MS)
    value.fill(json.dumps({"id": BIG + 1, "note": "again"}))
    page.get_by_role("button", name="Publish", exact=True).click()
    expect(page.get_by_role("link", name=PUBLISHED)).to_be_visible(timeout=WAIT_MS)

    lines = [
        json.dumps({"key": f"l{i}", "value": {"id": BIG + i, "note": ""}}) for i in range(1_200)
    ]
    file = tmp_path / "lines.jsonl"
    file.write_text("\n".join([*lines[:700], '{"value": {"id": 1}}', *lines[700:]]))
    page.goto(f"/c/standalone/t/public/default/{TOPIC}/publish")
    page.get_by_role("button", name="Lines of JSON").click(timeout=WAIT_MS)
    page.get_by_label("File").set_input_files(file)
    page.get_by_role("button", name="Check all lines").click()
    expect(main).to_contain_text("line 701, value.note", timeout=WAIT_MS)
    expect(page.get_by_role("button", name="Publish", exact=True)).to_be_disabled()
    corrected = tmp_path / "corrected.jsonl"
    corrected.write_text("\n".join(lines))
    page.get_by_label("File").set_input_files(corrected)
    page.get_by_role("button", name="Check all lines").click()
    page.get_by_role("button", name="Publish 1,200 messages").click(timeout=WAIT_MS)
    expect(main).to_contain_text("1,200 messages published.", timeout=WAIT_MS)
    assert violations(page, "published lines", "main") == []
    assert sorted(read(instance)) == sorted(
        [("k1", BIG), ("k1", BIG + 1), *((f"l{i}", BIG + i) for i in range(1_200))]
    )


def read(instance: Instance) -> list[tuple[str, int]]:
    """Return key and id of each stored message, as a client reads them."""
    client = pulsar.Client(instance.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    rows: list[tuple[str, int]] = []
    try:
        for partition in range(2):
            name = f"persistent://public/default/{TOPIC}-partition-{partition}"
            reader = client.create_reader(name, pulsar.MessageId.earliest)
            while reader.has_message_available():
                message = reader.read_next(10_000)
                rows.append((message.partition_key(), long_of(message.data())))
    finally:
        client.close()
    return rows


def long_of(data: bytes) -> int:
    """Return the first long of an Avro value."""
    number, shift = 0, 0
    for octet in data:
        number |= (octet & 0x7F) << shift
        shift += 7
        if octet < 0x80:
            break
    return (number >> 1) ^ -(number & 1)

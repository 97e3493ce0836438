"""Pages of messages in chunks: whole at each chunk that is stored, with the chunks that are missing named."""

import pulsar
from playwright.sync_api import Page, expect

from engine.wire import frames
from engine.wire.commands import command_bytes
from tests.e2e.axe import violations
from tests.support.instance import Instance
from tests.support.raw_client import Wire, entry_of

ADMIN = "/admin/v2/persistent/public/default"
API = "/api/v1/clusters/standalone/topics/persistent/public/default"
LARGE = ("a long line " * 500_000)[:5_500_000]
"""More than the broker stores in one entry, and than a page shows."""


def publish(instance: Instance, topic: str, *values: bytes) -> None:
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(instance.url, logger=quiet)
    try:
        producer = client.create_producer(
            f"persistent://public/default/{topic}", chunking_enabled=True, batching_enabled=False
        )
        for value in values:
            producer.send(value, partition_key="order-1")
    finally:
        client.close()


def publish_chunks(instance: Instance, topic: str, kept: dict[int, bytes], size: int) -> None:
    """Publish some chunks of a message, as a producer does that is lost in the middle."""
    wire = Wire(instance.ports["BROKER"], answers_pings=True).open()
    name = f"persistent://public/default/{topic}"
    answer = wire.ask("producer", topic=name, producer_id=1, request_id=1)
    assert "producer_success" in answer, answer
    for index, value in kept.items():
        body = {"producer_id": 1, "sequence_id": 0, "is_chunk": True}
        of = {"uuid": "lost-0", "chunk_id": index, "num_chunks_from_msg": size}
        entry = entry_of(value, **of, total_chunk_msg_size=4 * size, uncompressed_size=4 * size)
        wire.send(frames.payload_frame(command_bytes("send", body), entry))
        receipt = wire.frame()
        assert receipt is not None
        assert "send_receipt" in receipt, receipt
    wire.close()


def ids(instance: Instance, topic: str) -> list[str]:
    answer = instance.rest("GET", f"{API}/{topic}/messages?start=earliest")[1]
    return [row["id"] for row in answer["rows"]]


def test_the_page_of_a_chunk_shows_the_whole_message_up_to_its_limit_and_the_download_all_of_it(
    instance: Instance, page: Page, axe_source: str
) -> None:
    page.add_init_script(axe_source)
    publish(instance, "in-chunks", LARGE.encode())
    first, last = ids(instance, "in-chunks")
    for shown, other in ((first, last), (last, first)):
        page.goto(f"/c/standalone/t/public/default/in-chunks/messages/{shown}")
        expect(page.get_by_text("message in 2 chunks")).to_be_visible()
        value = page.get_by_label("The value")
        expect(value).to_contain_text("a long line a long line")
        expect(page.get_by_text("Only the beginning is shown")).to_be_visible()
        facts = page.get_by_label(f"Message {shown}")
        expect(facts).to_contain_text("order-1")
        expect(page.get_by_role("link", name=other, exact=True)).to_be_visible()
        assert violations(page, "chunked message", "main") == []
        with page.expect_download() as download:
            page.get_by_role("link", name="Download").click()
        assert download.value.path().read_bytes() == LARGE.encode()


def test_a_chunk_that_is_missing_is_named_and_the_others_lead_to_each_other(
    instance: Instance, page: Page, axe_source: str
) -> None:
    page.add_init_script(axe_source)
    publish(instance, "lacks-a-chunk", b"before")
    publish_chunks(instance, "lacks-a-chunk", {0: b"aaaa", 2: b"cccc"}, 3)
    _, first, last = ids(instance, "lacks-a-chunk")
    page.goto(f"/c/standalone/t/public/default/lacks-a-chunk/messages/{last}")
    notice = page.get_by_text("The message is not complete: chunk 2 of 3 is not stored.")
    expect(notice).to_be_visible()
    expect(notice).to_contain_text("No client receives it.")
    expect(page.get_by_text("chunk 3 of 3")).to_be_visible()
    assert violations(page, "incomplete message", "main") == []
    page.get_by_role("link", name=first, exact=True).click()
    expect(page.get_by_text("chunk 1 of 3")).to_be_visible()
    expect(page.get_by_label("The value")).to_contain_text("61 61 61 61")
    expect(page.get_by_role("link", name="Edit and send again")).to_have_count(0)

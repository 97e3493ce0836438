"""The Traces tab: the steps of the next message, from its publish to its acknowledgement."""

import re

import pulsar
from playwright.sync_api import Page, expect

from tests.support.life.cast import Story
from tests.support.life.life import Life, console_path


def test_the_next_message_is_traced_from_publish_to_acknowledgement(life: Life, page: Page) -> None:
    story = Story("persistent://shop/returns/traced", "", None)
    client = pulsar.Client(life.instance.url)
    try:
        consumer = client.subscribe(story.topic, "packing", consumer_name="packer")
        producer = client.create_producer(story.topic, producer_name="till")
        page.goto(console_path(story))
        page.get_by_role("link", name="Traces").click()
        page.get_by_role("button", name="Start").click()
        expect(page.get_by_text("Waiting for 1 more message")).to_be_visible()
        producer.send(b"a parcel")
        steps = page.get_by_role("table", name=re.compile("Steps of Message"))
        expect(steps).to_contain_text("Publish by till")
        expect(steps).to_contain_text(re.compile("Bookie bookie-1"))
        handled = steps.get_by_role("row").filter(has_text="packer of packing")
        expect(handled).to_contain_text("not ended")
        consumer.acknowledge(consumer.receive(10_000))
        expect(handled).to_contain_text(re.compile("[mµ]?s$"))
        expect(handled).not_to_contain_text("not ended")
        with page.expect_download() as download:
            page.get_by_role("link", name="OpenTelemetry file").click()
        assert download.value.suggested_filename == "traces.json"
        page.get_by_role("button", name="Delete traces").click()
        expect(steps).to_have_count(0)
    finally:
        client.close()

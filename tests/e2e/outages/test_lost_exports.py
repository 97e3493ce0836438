"""Exports of messages by their page while the gateway is killed: no file is saved, and the page says so."""

import os
import signal

import pulsar
import pytest
from playwright.sync_api import Download, Page, expect

from tests.e2e.conftest import Window
from tests.support.instance import Instance

TOPIC = "exported-while-killed"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_an_export_whose_gateway_is_killed_saves_nothing_and_a_later_one_all(
    page: Page, window: Window, instance: Instance, kind: str
) -> None:
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(instance.url, logger=quiet)
    producer = client.create_producer(f"persistent://public/default/{TOPIC}-{kind}")
    for number in range(100):
        producer.send(b"%d" % number)
    client.close()
    saved: list[Download] = []

    def record(file: Download) -> None:
        saved.append(file)

    page.on("download", record)
    page.goto(f"/c/standalone/t/public/default/{TOPIC}-{kind}/messages?start=earliest")
    page.get_by_label("Format").select_option(kind)
    os.kill(int(instance.child("gateway")["pid"]), signal.SIGSTOP)
    with page.expect_request("**/messages/export*"):
        page.get_by_role("button", name="Export").click()
    instance.control("kill", "gateway")
    expect(page.get_by_text("Nothing was saved")).to_be_visible()
    assert saved == []
    page.remove_listener("download", record)
    instance.wait_running("gateway")
    expect(page.locator("[data-status-line]")).to_contain_text("All parts answer")
    with page.expect_download() as download:
        page.get_by_role("button", name="Export").click()
    assert download.value.suggested_filename == f"{TOPIC}-{kind}.{kind}"
    expect(page.get_by_text("100 messages of 100 looked at")).to_be_visible()
    # The live feed connects to the killed gateway until it is back, which the browser logs.
    window.problems[:] = [text for text in window.problems if "ERR_CONNECTION" not in text]

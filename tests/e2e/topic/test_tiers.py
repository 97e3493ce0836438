"""The places of a topic's ledgers, in a browser: a preview of what would be moved and its price, and moving it now."""

from collections.abc import Iterator
from pathlib import Path

import pulsar
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.instance import Instance, running_instance

TOPIC = "persistent://public/default/cold"
WAIT_MS = 60_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cold")


@pytest.fixture(scope="module")
def tiered(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Iterator[Instance]:
    settings = {
        "MANAGED_LEDGER_OFFLOAD_DRIVER": "filesystem",
        "FILE_SYSTEM_URI": f"file://{folder}",
        "MANAGED_LEDGER_OFFLOAD_PRICE_PER_GB_MONTH": "23000",
        "MANAGED_LEDGER_MAX_ENTRIES_PER_LEDGER": "100",
        "MANAGED_LEDGER_MIN_LEDGER_ROLLOVER_TIME_MINUTES": "0",
    }
    environment = {f"MAGNETAR_{name}": value for name, value in settings.items()}
    with running_instance(tmp_path_factory.mktemp("tiered"), **environment) as instance:
        client = pulsar.Client(instance.url)
        client.subscribe(TOPIC, "s", initial_position=pulsar.InitialPosition.Earliest).close()
        producer = client.create_producer(TOPIC, batching_enabled=False)
        for _ in range(350):
            producer.send_async(bytes(1000), lambda *_: None)
        producer.flush()
        client.close()
        yield instance


@pytest.fixture(scope="module")
def page(browser: Browser, tiered: Instance) -> Iterator[Page]:
    context = browser.new_context(
        base_url=tiered.http, viewport={"width": 1280, "height": 900}, reduced_motion="reduce"
    )
    context.set_default_timeout(WAIT_MS)
    yield context.new_page()
    context.close()


@pytest.mark.timeout(300)
def test_ledgers_are_moved_as_previewed_and_all_messages_are_still_there(
    page: Page, tiered: Instance, folder: Path
) -> None:
    page.goto("/c/standalone/t/public/default/cold/overview")
    heading = page.get_by_role("heading", name="Tiered storage")
    panel = page.locator("section").filter(has=heading)
    panel.get_by_role("button", name="Show").click()
    preview = panel.get_by_role("status")
    expect(preview).to_contain_text("would be moved")
    expect(preview).to_contain_text("a month in tiered storage")
    places = panel.get_by_role("table", name="Bytes by place")
    expect(places).to_contain_text("Bookies")
    panel.get_by_label("Keep on bookies, in MiB").fill("100")
    expect(preview).to_contain_text("0 B in 0 ledgers would be moved")
    expect(panel.get_by_role("button", name="Move now")).to_be_disabled()
    panel.get_by_label("Keep on bookies, in MiB").fill("")
    panel.get_by_role("button", name="Move now").click()
    expect(places).to_contain_text("Both", timeout=WAIT_MS)
    assert list(folder.glob("*-index"))
    client = pulsar.Client(tiered.url)
    reader = client.create_reader(TOPIC, pulsar.MessageId.earliest)
    assert [len(reader.read_next(30_000).data()) for _ in range(350)] == [1000] * 350
    client.close()

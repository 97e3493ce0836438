"""A bookie that is lost and taken out, in a browser: the page counts down, shows what would be lost, and decommissions
as previewed; no message is lost."""

from collections.abc import Iterator

import pulsar
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.instance import Instance, running_instance
from tests.support.waiting import until_blocking

CLUSTER = "standalone"
API = f"/api/v1/clusters/{CLUSTER}"
TOPICS = [f"persistent://public/default/kept-{n}" for n in range(3)]
MESSAGES = 20
SLOW_MS = 120_000


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    with running_instance(tmp_path_factory.mktemp("four"), bookies=4) as instance:
        client = pulsar.Client(instance.url)
        for topic in TOPICS:
            client.subscribe(topic, "s").close()
            producer = client.create_producer(topic)
            for n in range(MESSAGES):
                producer.send(b"%d" % n)
        client.close()
        yield instance


@pytest.fixture(scope="module")
def page(browser: Browser, four: Instance) -> Iterator[Page]:
    context = browser.new_context(
        base_url=four.http, viewport={"width": 1280, "height": 900}, reduced_motion="reduce"
    )
    context.set_default_timeout(60_000)
    yield context.new_page()
    context.close()


def held(instance: Instance) -> str:
    """Return a bookie that ledgers name."""
    for n in range(1, 5):
        path = f"{API}/bookies/bookie-{n}/blast-radius"
        if instance.rest("GET", path)[1]["ledgers"]:
            return f"bookie-{n}"
    raise AssertionError("no bookie has a ledger")


@pytest.mark.timeout(600)
def test_a_lost_bookie_is_counted_down_and_decommissioned_as_previewed(
    page: Page, four: Instance
) -> None:
    bookie = held(four)
    page.goto(f"/c/{CLUSTER}/bookies")
    expect(page.get_by_text("Every ledger has all its copies")).to_be_visible()
    page.get_by_role("button", name=f"If it died… {bookie}").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Every topic would keep two copies or more.")
    expect(dialog.get_by_role("table")).to_contain_text("kept-")
    page.keyboard.press("Escape")
    four.control("stop", bookie)
    expect(page.get_by_text(f"{bookie} is away for")).to_be_visible(timeout=SLOW_MS)
    expect(page.get_by_text("unless it returns")).to_be_visible(timeout=SLOW_MS)
    page.get_by_role("button", name=f"Wait an hour longer for {bookie}…").click()
    expect(dialog).to_contain_text("is waited for 1 h")
    dialog.get_by_role("button", name="Store the time").click()
    expect(dialog.get_by_role("status")).to_contain_text("The time is stored")
    dialog.get_by_role("button", name="Close").last.click()
    assert four.rest("GET", f"{API}/repair")[1]["delay_s"] > 3600
    page.get_by_role("button", name=f"Decommission {bookie}…").click()
    expect(dialog).to_contain_text("Then its cookie is removed.")
    dialog.get_by_role("button", name="Decommission", exact=True).click()
    expect(dialog.get_by_role("status")).to_contain_text("The auditor is asked")
    dialog.get_by_role("button", name="Close").last.click()
    until_blocking(
        lambda: bookie not in [row["id"] for row in four.rest("GET", f"{API}/bookies")[1]["rows"]],
        "the bookie is taken out",
        240,
    )
    expect(page.get_by_text("Every ledger has all its copies")).to_be_visible(timeout=SLOW_MS)
    client = pulsar.Client(four.url)
    for topic in TOPICS:
        reader = client.create_reader(topic, pulsar.MessageId.earliest)
        assert [reader.read_next(20_000).data() for _ in range(MESSAGES)] == [
            b"%d" % n for n in range(MESSAGES)
        ]
    client.close()

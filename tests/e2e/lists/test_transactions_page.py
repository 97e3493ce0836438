"""The page of transactions in a browser: what is open, and one that is aborted as previewed."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pulsar
import pytest
from playwright.sync_api import Browser, Page, expect

from engine.client.broker_link import BrokerLink, LinkSettings
from engine.client.lookup import Links
from engine.net.network import LoopNetwork
from tests.e2e.axe import violations
from tests.e2e.lists.test_sorted_lists import turn
from tests.support.instance import Instance, running_instance
from tests.support.transactions.transaction_client import TransactionClient, Txn

CLUSTER = "standalone"
TOPIC = "persistent://public/default/held-back"
HOUR_MS = 3_600_000
SLOW_MS = 60_000


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    with running_instance(
        tmp_path_factory.mktemp("transactions"), MAGNETAR_TRANSACTION_COORDINATOR_ENABLED="true"
    ) as made:
        yield made


@pytest.fixture(scope="module")
def page(browser: Browser, instance: Instance) -> Iterator[Page]:
    context = browser.new_context(
        base_url=instance.http,
        viewport={"width": 1280, "height": 900},
        reduced_motion="reduce",
        bypass_csp=True,  # for axe's script
    )
    context.set_default_timeout(SLOW_MS)
    yield context.new_page()
    context.close()


def begin(instance: Instance, count: int) -> list[Txn]:
    """Begin transactions that publish to the topic and acknowledge on a subscription of it."""

    async def work() -> list[Txn]:
        links = Links(LoopNetwork(), LinkSettings("test", request_timeout_s=30.0), BrokerLink)
        client = await TransactionClient.open(links, instance.url)
        begun = [await client.begin(HOUR_MS) for _ in range(count)]
        for txn in begun:
            await client.add_partitions(txn, [TOPIC])
            await client.add_subscriptions(txn, [(TOPIC, "s")])
        await links.close()
        return begun

    with ThreadPoolExecutor(1) as apart:  # the browser's loop runs in this thread
        return apart.submit(asyncio.run, work()).result(SLOW_MS / 1000)


@pytest.mark.timeout(300)
def test_an_open_transaction_is_shown_and_aborted_as_previewed(
    page: Page, instance: Instance, axe_source: str
) -> None:
    client = pulsar.Client(instance.url)
    client.subscribe(TOPIC, "s").close()
    client.close()
    page.goto(f"/c/{CLUSTER}/transactions")
    expect(page.get_by_text("No transaction is open")).to_be_visible()
    begin(instance, 2)
    rows = page.get_by_role("table", name="Open transactions")
    expect(rows).to_contain_text("(0,1)")
    expect(rows).to_contain_text("publishes to")
    expect(rows).to_contain_text("acknowledges s of")
    expect(page.get_by_role("table", name="Coordinators")).to_contain_text("Ready")
    page.evaluate(axe_source)
    assert violations(page, "transactions", "html") == []
    page.set_viewport_size({"width": 1280, "height": 900})
    for header, first, field in (
        ("Id", "ascending", "id"),
        ("State", "ascending", "status"),
        ("Since", "ascending", "since"),
        ("Time-out", "descending", "timeout_ms"),
        ("Owner", "ascending", "owner"),
    ):
        turn(page, rows, header, first, field)
    turn(page, rows, "Id", "ascending", "id")
    expect(rows.locator("tbody tr").first).to_contain_text("(0,1)")
    page.get_by_label("Filter by owner").fill("nothing-of-this-name")
    expect(page.get_by_text("No transaction matches")).to_be_visible()
    page.get_by_role("button", name="Clear filters").click()
    rows.get_by_role("row", name="(0,0)").get_by_role("button", name="Abort").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("is never delivered")
    expect(dialog).to_contain_text("is delivered again")
    assert violations(page, "abort", "[role=dialog]") == []
    page.set_viewport_size({"width": 1280, "height": 900})
    dialog.get_by_role("button", name="Abort", exact=True).click()
    expect(dialog.get_by_role("status")).to_contain_text("transaction (0,0) was aborted")
    dialog.get_by_role("button", name="Close").last.click()
    expect(rows).not_to_contain_text("(0,0)")
    left = instance.rest("GET", f"/api/v1/clusters/{CLUSTER}/transactions")[1]["rows"]
    assert [(row["coordinator"], row["number"]) for row in left] == [(0, 1)]

"""The balance of load in a browser: loads of brokers, the reasons for which nothing moves, a move to a named broker,
and a broker that dies."""

import json
import re

import pytest
from kazoo.client import KazooClient
from playwright.sync_api import Page, expect

from tests.e2e.axe import violations
from tests.e2e.life.test_cluster_pages import open_change, owned_by, row
from tests.support.life.cast import CLUSTER
from tests.support.life.life import Life
from tests.support.waiting import until_blocking

NAMESPACE = "archive/2025-q4"
MOVE = {
    "bundle": f"{NAMESPACE}/0x00000000_0xffffffff",
    "source": "a:8080",
    "destination": "b:8080",
    "reason": "load 90.0 % of a:8080, 10.0 % of b:8080",
    "atMs": 1,
    "result": "unloaded only: b:8080 cannot prepare",
}


def leader(life: Life) -> str:
    return str(life.instance.rest("GET", f"/api/v1/clusters/{CLUSTER}/load-balance")[1]["leader"])


def record_move(life: Life) -> None:
    """Store a move as if a leader had asked for it; it is long ago, so that no plan considers it."""
    store = KazooClient(f"127.0.0.1:{life.instance.ports['ZOOKEEPER']}")
    store.start()
    try:
        record = json.dumps({"leader": "a:8080", "cycleMs": 1, "moves": [MOVE]}).encode()
        store.ensure_path("/loadbalance/moves")
        store.set("/loadbalance/moves", record)
    finally:
        store.stop()
        store.close()


@pytest.mark.timeout(300)
def test_the_page_shows_each_load_the_leader_and_why_nothing_moves(
    page: Page, life: Life, axe_source: str
) -> None:
    record_move(life)
    page.goto(f"{life.instance.http}/c/{CLUSTER}/brokers")
    for broker in life.instance.rest("GET", "/admin/v2/brokers")[1]:
        expect(row(page, broker)).to_contain_text(re.compile(r"[\d.]+ %.*reported (now|.+ ago)"))
    expect(row(page, leader(life))).to_contain_text("leads the balance of load")
    panel = page.get_by_role("region", name="Balance of load")
    expect(panel).to_contain_text(re.compile(rf"{leader(life)} leads(\.|, and there is no plan)"))
    moved = page.get_by_role("region", name="Last moves").get_by_role("row")
    shown = moved.filter(has_text="a:8080 → b:8080")
    expect(shown).to_contain_text(str(MOVE["bundle"]))
    expect(shown).to_contain_text(str(MOVE["reason"]))
    expect(shown).to_contain_text(str(MOVE["result"]))
    page.evaluate(axe_source)
    assert violations(page, "brokers", "main") == []


@pytest.mark.timeout(300)
def test_a_bundle_moves_to_a_named_broker_as_previewed(page: Page, life: Life) -> None:
    owners = owned_by(life)
    name, owner = next((n, o) for n, o in sorted(owners.items()) if n.startswith(NAMESPACE))
    bundle = name.rpartition("/")[2]
    other = next(b for b in life.instance.rest("GET", "/admin/v2/brokers")[1] if b != owner)
    dialog = open_change(page, life, NAMESPACE, bundle)
    dialog.get_by_label("What to do").select_option("transfer")
    expect(dialog).to_contain_text("Complete the form")
    dialog.get_by_label("Broker that receives it").select_option(owner)
    expect(dialog).to_contain_text(f"{owner} owns the bundle already.")
    expect(dialog.get_by_role("button", name="Move bundle")).to_be_disabled()
    dialog.get_by_label("Broker that receives it").select_option(other)
    expect(dialog).to_contain_text(f"{owner} closes its topics and passes it to {other}")
    expect(dialog).to_contain_text("Isolation policies allow it there.")
    dialog.get_by_role("button", name="Move bundle").click()
    expect(dialog.get_by_role("status")).to_contain_text(f"It moved from {owner} to {other}.")
    assert owned_by(life)[name] == other
    dialog.get_by_role("button", name="Close").last.click()
    expect(row(page, bundle)).to_contain_text(other)
    audit = life.instance.rest("GET", "/api/v1/audit?q=/transfer&limit=1")[1]["rows"]
    assert (audit[0]["target"].endswith(f"{bundle}/transfer"), audit[0]["status"]) == (True, 200)


@pytest.mark.timeout(300)
def test_a_dead_broker_is_named_and_the_other_one_takes_its_bundles(page: Page, life: Life) -> None:
    dead = life.instance.rest("GET", "/admin/v2/brokers")[1][-1]
    page.goto(f"{life.instance.http}/c/{CLUSTER}/brokers")
    expect(row(page, dead)).to_contain_text("up")
    with life.without("broker-2"):
        expect(row(page, dead)).to_contain_text("down")
        # Clients of its topics reconnect, so that the other broker acquires their bundles.
        until_blocking(lambda: dead not in owned_by(life).values(), "its bundles are taken over")
        expect(page.get_by_role("region", name="Balance of load")).to_contain_text(
            re.compile("leads|No broker leads")
        )
        balance = life.instance.rest("GET", f"/api/v1/clusters/{CLUSTER}/load-balance")[1]
        assert dead != balance["leader"] or balance["reason"]
    expect(row(page, dead)).to_contain_text("up")

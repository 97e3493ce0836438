"""Brokers, bundles, bookies and settings in a browser: the pages are true, a change does what its preview showed, and
while a part is unavailable no change is reported as done unless that is known."""

import re
import subprocess
from itertools import pairwise

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.life.watching import STATUS
from tests.support.life.cast import CLUSTER, STORIES
from tests.support.life.life import Life, console_path
from tests.support.waiting import until_blocking

NAMESPACE = "archive/2025-q4"
INVOICES = next(story for story in STORIES if story.topic.endswith("/invoices"))


def bundles_of(life: Life, namespace: str) -> list[str]:
    """Return the ranges of a namespace's bundles, from the admin REST."""
    status, answer = life.instance.rest("GET", f"/admin/v2/namespaces/{namespace}/bundles")
    assert status == 200
    edges: list[str] = answer["boundaries"]
    return [f"{low}_{high}" for low, high in pairwise(edges)]


def owned_by(life: Life) -> dict[str, str]:
    """Return the owner of each bundle: bundle → broker."""
    owners = {}
    for broker in life.instance.rest("GET", "/admin/v2/brokers")[1]:
        path = f"/admin/v2/brokers/{CLUSTER}/{broker}/ownedNamespaces"
        owners |= dict.fromkeys(life.instance.rest("GET", path)[1], broker)
    return owners


def row(page: Page, text: str) -> Locator:
    return page.get_by_role("row").filter(has_text=text).first


def open_change(page: Page, life: Life, namespace: str, bundle: str) -> Locator:
    page.goto(f"{life.instance.http}/c/{CLUSTER}/bundles?q={namespace}")
    page.get_by_role("button", name=f"Change {namespace}/{bundle}").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Owner")
    return dialog


def owned_bundle(life: Life, namespace: str) -> tuple[str, str]:
    """Return the range of a bundle that has an owner, and the owner."""
    owners = owned_by(life)
    return next(
        (bundle, owners[f"{namespace}/{bundle}"])
        for bundle in bundles_of(life, namespace)
        if f"{namespace}/{bundle}" in owners
    )


@pytest.mark.timeout(300)
def test_the_pages_show_every_broker_bundle_and_bookie(page: Page, life: Life) -> None:
    page.goto(f"{life.instance.http}/")
    page.get_by_role("link", name="Cluster", exact=True).click()
    brokers = life.instance.rest("GET", "/admin/v2/brokers")[1]
    for broker in brokers:
        expect(row(page, broker)).to_contain_text("up")
    owners = owned_by(life)
    first = brokers[0]
    mine = sum(owner == first for owner in owners.values())
    expect(page.get_by_role("link", name=f"Bundles of {first}: {mine}")).to_be_visible()
    page.get_by_role("link", name=re.compile(f"Bundles of {first}")).click()
    expect(page.get_by_label("Owner")).to_have_value(first)
    shown = page.get_by_role("row").filter(has=page.get_by_role("gridcell"))
    expect(shown.first).to_contain_text(first)
    expect(page.get_by_role("status").filter(has_text="bundles")).to_have_text(f"{mine} bundles")
    page.get_by_role("link", name="Bookies", exact=True).click()
    for bookie in ("bookie-1", "bookie-2", "bookie-3"):
        expect(row(page, bookie)).to_contain_text("writable")
        expect(row(page, bookie)).to_contain_text("GiB")


@pytest.mark.timeout(300)
def test_a_topic_links_to_its_owners_bundles_and_the_palette_opens_the_page(
    page: Page, life: Life
) -> None:
    page.goto(life.instance.http + console_path(INVOICES))
    badge = page.get_by_text("owned by")
    owner = badge.get_by_role("link").inner_text()
    badge.get_by_role("link").click()
    expect(page.get_by_label("Owner")).to_have_value(owner)
    words = page.get_by_role("textbox", name="Words of namespace or range")
    expect(words).to_have_value(INVOICES.topic.partition("://")[2].rpartition("/")[0])
    page.keyboard.press("Control+k")
    page.get_by_role("textbox", name="Open a topic or a place").fill("bookies")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"/c/{CLUSTER}/bookies$"))


@pytest.mark.timeout(300)
def test_a_bundle_is_unloaded_and_the_receipt_names_its_owner(page: Page, life: Life) -> None:
    bundle, owner = owned_bundle(life, NAMESPACE)
    dialog = open_change(page, life, NAMESPACE, bundle)
    expect(dialog).to_contain_text(f"{owner} closes its topics and releases it")
    dialog.get_by_role("button", name="Unload bundle").click()
    receipt = dialog.get_by_role("status")
    expect(receipt).to_contain_text(f"{owner} released the bundle.")
    expect(receipt).to_contain_text(
        re.compile("No broker owned it right after|owns it again|owns it now")
    )
    dialog.get_by_role("button", name="Close").last.click()
    audit = life.instance.rest("GET", "/api/v1/audit?q=/unload&limit=1")[1]["rows"]
    assert (audit[0]["target"].endswith(f"{bundle}/unload"), audit[0]["status"]) == (True, 200)


@pytest.mark.timeout(300)
def test_a_bundle_is_split_as_previewed_and_its_commands_do_the_same(
    page: Page, life: Life
) -> None:
    bundle, _ = owned_bundle(life, NAMESPACE)
    dialog = open_change(page, life, NAMESPACE, bundle)
    dialog.get_by_label("What to do").select_option("split")
    dialog.get_by_label("Where to split").select_option("topics")
    parts = dialog.get_by_role("listitem").filter(has_text="0x").locator(".mono")
    expect(parts).to_have_count(2)
    shown = parts.all_inner_texts()
    dialog.get_by_role("button", name="Split into 2").click()
    expect(dialog.get_by_role("status")).to_contain_text("The bundle was split into 2 bundles.")
    present = bundles_of(life, NAMESPACE)
    assert set(shown) <= set(present)
    assert bundle not in present
    dialog.get_by_role("button", name="Close").last.click()
    expect(page.get_by_role("button", name=f"Change {NAMESPACE}/{shown[0]}")).to_be_visible()

    dialog = open_change(page, life, NAMESPACE, shown[0])
    dialog.get_by_label("What to do").select_option("split")
    expect(parts).to_have_count(2)
    wanted = parts.all_inner_texts()
    run_command(dialog)
    assert set(wanted) <= set(bundles_of(life, NAMESPACE))
    dialog.get_by_role("button", name="Split into 2").click()
    expect(dialog.get_by_role("alert")).to_contain_text("The bundle was split since the preview")
    dialog.get_by_role("button", name="Cancel").click()


def run_command(dialog: Locator) -> None:
    """Run the curl command that the dialog shows for its change."""
    dialog.get_by_text("As a command").click()
    command = dialog.get_by_role("region", name="curl command").inner_text()
    subprocess.run(["/bin/sh", "-c", command], check=True, capture_output=True, timeout=60)


@pytest.mark.timeout(300)
def test_a_setting_is_changed_for_all_brokers_as_previewed(page: Page, life: Life) -> None:
    name, rest = "maxTopicsPerNamespace", "/admin/v2/brokers/configuration"
    page.goto(f"{life.instance.http}/c/{CLUSTER}/brokers")
    page.get_by_role("link", name="Settings", exact=True).click()
    expect(row(page, name)).to_contain_text("default")
    page.get_by_role("button", name=f"Set… {name}").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Value").fill("many")
    expect(dialog).to_contain_text(f"{name}: must be a whole number from 0 to 2147483647")
    expect(dialog.get_by_role("button", name="Set for all brokers")).to_be_disabled()
    dialog.get_by_label("Value").fill("90100")
    expect(dialog).to_contain_text("From 0 to 90100, stored for all brokers.")
    expect(dialog).to_contain_text("All 2 brokers apply it immediately")
    dialog.get_by_role("button", name="Set for all brokers").click()
    receipt = dialog.get_by_role("status")
    expect(receipt).to_contain_text(f"{name} is stored as 90100. All 2 brokers have applied it")
    dialog.get_by_role("button", name="Close").last.click()
    expect(row(page, name)).to_contain_text("stored for all brokers")
    assert life.instance.rest("GET", f"{rest}/values")[1][name] == "90100"
    audit = life.instance.rest("GET", f"/api/v1/audit?q=settings/{name}&limit=1")[1]["rows"][0]
    [change] = audit["changes"]
    assert (audit["status"], change["before"], change["after"]["value"]) == (200, None, "90100")

    page.get_by_role("button", name=f"Remove… {name}").click()
    expect(dialog).to_contain_text("From 90100 to 0, as configured at the start of each broker")
    life.instance.rest("POST", f"{rest}/{name}/90200")
    dialog.get_by_role("button", name="Remove", exact=True).click()
    expect(dialog.get_by_role("alert")).to_contain_text("Another value is stored since the preview")
    assert life.instance.rest("GET", f"{rest}/values")[1][name] == "90200"
    dialog.get_by_role("button", name="Preview again").click()
    expect(dialog).to_contain_text("From 90200 to 0")
    dialog.get_by_role("button", name="Remove", exact=True).click()
    expect(dialog.get_by_role("status")).to_contain_text(f"The stored value of {name} was removed.")
    dialog.get_by_role("button", name="Close").last.click()
    assert name not in life.instance.rest("GET", f"{rest}/values")[1]


@pytest.mark.timeout(300)
def test_a_bookies_rack_is_set_as_previewed_and_its_commands_do_the_same(
    page: Page, life: Life
) -> None:
    rest = "/admin/v2/bookies/racks-info"
    page.goto(f"{life.instance.http}/c/{CLUSTER}/bookies")
    page.get_by_role("button", name="Rack… bookie-1").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox", name="Rack").fill("/a/b/c")
    expect(dialog).to_contain_text("rack: must be")
    dialog.get_by_role("textbox", name="Rack").fill("/rack-1")
    expect(dialog).to_contain_text("From no rack to rack /rack-1 in group default.")
    expect(dialog).to_contain_text("2 of 3 bookies have no rack after the change")
    dialog.get_by_role("button", name="Set rack").click()
    expect(dialog.get_by_role("status")).to_contain_text("bookie-1 is set to rack /rack-1")
    dialog.get_by_role("button", name="Close").last.click()
    expect(row(page, "bookie-1")).to_contain_text("/rack-1")
    assert life.instance.rest("GET", rest)[1] == {"default": {"bookie-1": {"rack": "/rack-1"}}}
    audit = life.instance.rest("GET", "/api/v1/audit?q=bookie-1/rack&limit=1")[1]["rows"][0]
    [change] = audit["changes"]
    assert (audit["status"], change["where"]) == (200, "/bookies")
    assert change["before"] != change["after"]

    page.get_by_role("button", name="Rack… bookie-1").click()
    dialog.get_by_label("What to do").select_option("remove")
    expect(dialog).to_contain_text("3 of 3 bookies have no rack after the change")
    run_command(dialog)
    assert life.instance.rest("GET", rest)[1] == {}
    dialog.get_by_role("button", name="Remove rack").click()
    expect(dialog.get_by_role("alert")).to_contain_text("was changed meanwhile")
    dialog.get_by_role("button", name="Cancel").click()
    expect(row(page, "bookie-1")).to_contain_text("not set")


@pytest.mark.timeout(300)
def test_all_bundles_of_a_namespace_are_unloaded_and_the_receipt_counts_them(
    page: Page, life: Life
) -> None:
    tenant, _, namespace = NAMESPACE.partition("/")
    mine = sorted(name for name in owned_by(life) if name.startswith(f"{NAMESPACE}/"))
    page.goto(f"{life.instance.http}/c/{CLUSTER}/tenants/{tenant}/{namespace}")
    page.get_by_role("button", name="Unload…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(mine[0])
    many = f"{len(mine)} bundle{'s' if len(mine) > 1 else ''}"
    dialog.get_by_role("button", name=f"Unload {many}").click()
    expect(dialog.get_by_role("status")).to_contain_text(f"{many} w")
    expect(dialog.get_by_role("status")).to_contain_text("unloaded. Right after,")
    dialog.get_by_role("button", name="Close").last.click()
    (entry,) = life.instance.rest("GET", "/api/v1/audit?q=/unload&limit=1")[1]["rows"]
    assert (entry["target"].endswith(f"/{namespace}/unload"), entry["status"]) == (True, 200)
    assert len(entry["changes"]) == len(mine)


@pytest.mark.timeout(300)
def test_bundles_of_a_broker_are_unloaded_by_the_command_and_the_old_preview_is_refused(
    page: Page, life: Life
) -> None:
    owners = owned_by(life)
    broker = life.instance.rest("GET", "/admin/v2/brokers")[1][0]
    mine = sum(owner == broker for owner in owners.values())
    page.goto(f"{life.instance.http}/c/{CLUSTER}/bundles?broker={broker}")
    page.get_by_role("button", name="Unload all its bundles…").click()
    expect(page.get_by_role("dialog")).to_contain_text(f"{broker} closes the topics of {mine} bund")
    page.keyboard.press("Escape")
    page.goto(f"{life.instance.http}/c/{CLUSTER}/brokers")
    page.get_by_role("button", name=f"all bundles of {broker}").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("To move all of them away for longer, drain it")
    dialog.get_by_text("As a command").click()
    command = dialog.get_by_role("region", name="curl command").inner_text()
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, timeout=60, check=True)
    assert b"error" not in done.stderr, done.stderr
    # Clients may have reconnected, so the same broker may own the bundles again. A split makes other bundles of them,
    # regardless of the owner.
    cut = next(name for name, owner in owners.items() if owner == broker)
    assert life.instance.rest("PUT", f"/admin/v2/namespaces/{cut}/split")[0] == 204
    dialog.get_by_role("button", name=f"Unload {mine} bund").click()
    expect(dialog.get_by_role("alert")).to_contain_text("not those of the preview any more")
    dialog.get_by_role("button", name="Preview again").click()
    expect(dialog.get_by_role("alert")).to_have_count(0)
    dialog.get_by_role("button", name="Cancel").click()


@pytest.mark.timeout(300)
def test_a_broker_killed_under_a_dialog_is_not_reported_to_have_released_its_bundle(
    page: Page, life: Life
) -> None:
    owner = life.instance.rest("GET", "/admin/v2/brokers")[1][-1]
    name = next(name for name, broker in owned_by(life).items() if broker == owner)
    namespace, _, bundle = name.rpartition("/")
    dialog = open_change(page, life, namespace, bundle)
    expect(dialog.get_by_role("button", name="Unload bundle")).to_be_enabled()
    with life.without("broker-2"):
        dialog.get_by_role("button", name="Unload bundle").click()
        outcome = dialog.locator("[role=alert], [role=status]").last
        expect(outcome).to_contain_text(
            re.compile("not known whether it was done|Nothing was changed")
        )
        expect(dialog).not_to_contain_text("released the bundle")
        expect(page.locator(STATUS)).to_contain_text(re.compile("broker", re.IGNORECASE))
        page.goto(f"{life.instance.http}/c/{CLUSTER}/brokers")
        line = row(page, owner)
        expect(line).to_contain_text("down")
    page.goto(f"{life.instance.http}/c/{CLUSTER}/brokers")
    expect(row(page, owner)).to_contain_text("up")


def blamed_part(life: Life) -> tuple[int, str]:
    """Return the status of the bundles' call, and the part that it names as unavailable."""
    status, answer = life.instance.rest("GET", f"/api/v1/clusters/{CLUSTER}/bundles")
    return status, answer.get("hop", "")


@pytest.mark.timeout(300)
def test_without_the_metadata_store_the_pages_name_it_and_show_no_numbers(
    page: Page, life: Life
) -> None:
    page.goto(f"{life.instance.http}/c/{CLUSTER}/bundles")
    expect(page.get_by_role("grid", name="Bundles")).to_be_visible()
    with life.without("zookeeper"):
        expect(page.locator(STATUS)).to_contain_text("Metadata store")
        expect(page.get_by_role("grid", name="Bundles")).to_be_visible()
        expect(page.get_by_text("Stale").last).to_be_visible()
        # The map of bundles is cached for a moment, and answered from the cache until then.
        until_blocking(lambda: blamed_part(life) == (503, "store"), "503 for the metadata store")
        opened = page.context.new_page()
        opened.goto(f"{life.instance.http}/c/{CLUSTER}/bundles")
        expect(opened.get_by_role("main")).to_contain_text("metadata store")
        expect(opened.get_by_role("grid")).to_have_count(0)
        opened.close()
    expect(page.locator(STATUS)).to_contain_text("All parts answer")

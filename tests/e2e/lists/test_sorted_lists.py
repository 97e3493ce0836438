"""Lists of each kind in a browser: a click on a header sorts the list, and the address names the order."""

import re

import pulsar
import pytest
from playwright.sync_api import Locator, Page, expect

from tests.support.instance import Instance
from tests.support.waiting import until_blocking

CONSOLE = "/api/v1/clusters/standalone"
RULE = {
    "severity": "warning",
    "definition": {"kind": "attention"},
    "for_s": 0,
    "channels": [],
    "escalate_to": [],
}


def ordered_by(page: Page, sort: str) -> None:
    expect(page).to_have_url(re.compile(rf"[?&]sort={re.escape(sort)}(&|$)"))


def turn(page: Page, table: Locator, header: str, first: str, field: str) -> None:
    """Sort a table by a header in both directions, by keyboard; ``first``: the order of the first press."""
    column = table.get_by_role("columnheader", name=header, exact=True)
    orders = ["ascending", "descending"]
    for order in orders if first == "ascending" else orders[::-1]:
        column.get_by_role("button").press("Enter")
        expect(column).to_have_attribute("aria-sort", order)
        ordered_by(page, field if order == "ascending" else f"-{field}")


@pytest.mark.timeout(200)
def test_a_click_on_a_header_sorts_a_table_by_the_gateway(page: Page, instance: Instance) -> None:
    for name in ("sorted-a", "sorted-b"):
        body = {"adminRoles": [f"{name}-admin"], "allowedClusters": ["standalone"]}
        assert instance.rest("PUT", f"/admin/v2/tenants/{name}", body)[0] == 204
    page.goto("/c/standalone/roles?q=sorted-")
    table = page.get_by_role("table", name="Roles")
    rows = table.locator("tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("sorted-a-admin")
    header = table.get_by_role("columnheader", name="Role")
    expect(header).to_have_attribute("aria-sort", "ascending")
    header.get_by_role("button").click()
    ordered_by(page, "-role")
    expect(header).to_have_attribute("aria-sort", "descending")
    expect(rows.first).to_contain_text("sorted-b-admin")
    table.get_by_role("button", name="Tenants").click()
    ordered_by(page, "-tenants")
    page.go_back()
    ordered_by(page, "-role")
    expect(rows.first).to_contain_text("sorted-b-admin")
    page.reload()
    expect(rows.first).to_contain_text("sorted-b-admin")
    for name in ("sorted-a", "sorted-b"):
        instance.rest("DELETE", f"/admin/v2/tenants/{name}")


@pytest.mark.timeout(200)
def test_a_click_on_a_header_sorts_the_audit_log(page: Page, instance: Instance) -> None:
    instance.rest("PUT", "/admin/v2/tenants/sorted-log", {"allowedClusters": ["standalone"]})
    instance.rest("DELETE", "/admin/v2/tenants/sorted-log")
    page.goto("/audit")
    grid = page.get_by_role("grid", name="Audit log")
    expect(grid.get_by_role("columnheader", name="When")).to_have_attribute(
        "aria-sort", "descending"
    )
    what = grid.get_by_role("columnheader", name="What")
    with page.expect_response(lambda answer: "sort=operation" in answer.url) as answered:
        what.click()
    operations = [row["operation"] for row in answered.value.json()["rows"]]
    assert operations == sorted(operations)
    ordered_by(page, "operation")
    expect(what).to_have_attribute("aria-sort", "ascending")
    what.click()
    ordered_by(page, "-operation")


@pytest.mark.timeout(200)
def test_a_click_in_the_bar_sorts_a_list_of_items(page: Page, instance: Instance) -> None:
    made = []
    for name in ("sorted rule a", "sorted rule b"):
        status, row = instance.rest("POST", f"{CONSOLE}/alerts/rules", {**RULE, "name": name})
        assert status == 201, row
        made.append(row["id"])
    page.goto("/alerts?tab=rules")
    items = page.get_by_role("listitem").filter(has_text="sorted rule")
    expect(items.first).to_contain_text("sorted rule a")
    bar = page.get_by_role("group", name="Order of the list")
    bar.get_by_role("button", name="Name").click()
    ordered_by(page, "-name")
    expect(items.first).to_contain_text("sorted rule b")
    for key in made:
        instance.rest("DELETE", f"{CONSOLE}/alerts/rules/{key}")


@pytest.mark.timeout(200)
def test_a_click_on_a_header_sorts_the_servers_of_a_cluster(page: Page, instance: Instance) -> None:
    for path, name, header, sort in (
        ("bookies", "Bookies", "Ledgers", "-ledgers"),
        ("brokers", "Brokers", "Topics", "-topics"),
    ):
        page.goto(f"/c/standalone/{path}")
        table = page.get_by_role("table", name=name)
        column = table.get_by_role("columnheader", name=header)
        expect(column).to_have_attribute("aria-sort", "none")
        column.get_by_role("button").click()
        ordered_by(page, sort)
        expect(column).to_have_attribute("aria-sort", "descending")


@pytest.mark.timeout(200)
def test_a_click_on_a_header_sorts_tenants_and_namespaces(page: Page, instance: Instance) -> None:
    for path, caption in (("tenants", "Tenants"), ("tenants/public", "Namespaces of public")):
        page.goto(f"/c/standalone/{path}")
        table = page.get_by_role("table", name=caption)
        column = table.get_by_role("columnheader", name="Backlog")
        expect(column).to_have_attribute("aria-sort", "none")
        with page.expect_response(lambda answer: "sort=-backlog" in answer.url) as answered:
            column.get_by_role("button").click()
        assert answered.value.status == 200
        ordered_by(page, "-backlog")
        expect(column).to_have_attribute("aria-sort", "descending")


@pytest.mark.timeout(200)
def test_runs_are_filtered_by_their_state(page: Page, instance: Instance) -> None:
    page.goto("/analyses")
    state = page.get_by_role("combobox", name="State")
    with page.expect_response(lambda answer: "state=failed" in answer.url) as answered:
        state.select_option("failed")
    assert {row["state"] for row in answered.value.json()["rows"]} <= {"failed"}
    expect(page).to_have_url(re.compile(r"[?&]state=failed(&|$)"))
    page.reload()
    expect(state).to_have_value("failed")
    state.select_option("Any state")
    expect(page).not_to_have_url(re.compile("state="))


@pytest.mark.timeout(200)
def test_the_headers_of_change_sets_sort_in_both_directions_by_keyboard(
    page: Page, instance: Instance
) -> None:
    topic = "persistent://public/default/sorted-changes"
    assert instance.rest("PUT", "/admin/v2/persistent/public/default/sorted-changes")[0] == 204
    for kind in ("unload", "delete-topics"):
        body = {"kind": kind, "objects": [{"topic": topic}]}
        assert instance.rest("POST", f"{CONSOLE}/changes", body)[0] in (200, 201, 202)
    page.goto("/c/standalone/changes")
    table = page.get_by_role("table", name="Change sets")
    created = table.get_by_role("columnheader", name="Created", exact=True)
    expect(created).to_have_attribute("aria-sort", "descending")
    for header, first, field in (
        ("Change", "ascending", "kind"),
        ("State", "ascending", "state"),
        ("By", "ascending", "created_by"),
        ("Created", "descending", "created_at"),
    ):
        turn(page, table, header, first, field)
    rows = table.locator("tbody tr")
    turn(page, table, "Change", "ascending", "kind")
    expect(rows.first).to_contain_text("Unload")
    page.goto("/c/standalone/changes?sort=kind")
    expect(rows.last).to_contain_text("Unload")
    instance.rest("DELETE", "/admin/v2/persistent/public/default/sorted-changes?force=true")


@pytest.mark.timeout(200)
def test_the_bar_of_copies_sorts_in_both_directions_by_keyboard(
    page: Page, instance: Instance
) -> None:
    for name in ("sorted-from-a", "sorted-from-b", "sorted-to"):
        assert instance.rest("PUT", f"/admin/v2/persistent/public/default/{name}")[0] == 204
    client = pulsar.Client(instance.url)
    for name in ("sorted-from-a", "sorted-from-b"):
        client.create_producer(f"persistent://public/default/{name}").send(b"1")
        path = f"{CONSOLE}/topics/persistent/public/default/{name}/copies"
        target = {"target": "persistent://public/default/sorted-to"}
        status, seen = instance.rest("POST", path, {"preview": True, **target})
        assert status == 200, seen
        assert instance.rest("POST", path, {"token": seen["token"]})[0] == 200
    client.close()
    states = f"{CONSOLE}/copies?state=succeeded"
    until_blocking(
        lambda: instance.rest("GET", states)[1]["total"] == 2, instance.logs, bound_s=120
    )
    page.goto("/c/standalone/copies")
    items = page.get_by_role("listitem").filter(has_text="sorted-to")
    expect(items.first).to_contain_text("sorted-from-b")
    bar = page.get_by_role("group", name="Order of the list")
    for header, field in (
        ("To", "target"),
        ("Kind", "mode"),
        ("State", "state"),
        ("From", "source"),
    ):
        for sort in (field, f"-{field}"):
            bar.get_by_role("button", name=header).press("Enter")
            ordered_by(page, sort)
            order = "descending" if sort.startswith("-") else "ascending"
            expect(bar.locator("[aria-current]")).to_contain_text(order)
    expect(items.first).to_contain_text("sorted-from-b")
    bar.get_by_role("button", name="From").press("Enter")
    expect(items.first).to_contain_text("sorted-from-a")

"""Pages whose gateway is killed between a confirmed change and its answer: they neither report success nor that nothing
was done, they do not wait silently, and they show what was done when the gateway is back."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
from playwright.sync_api import Page, Route, expect

from tests.e2e.conftest import Window
from tests.support.instance import Instance

NOT_KNOWN = "It is not known whether this was done"
RULES = "/api/v1/clusters/standalone/alerts/rules"
TOPIC = "persistent://public/default/lost-answer"


def prepare_rule(page: Page, instance: Instance) -> None:
    page.goto("/alerts?tab=rules")
    page.get_by_role("button", name="New rule…").click()
    page.get_by_role("textbox", name="Name").fill("of a lost answer")
    expect(page.get_by_role("dialog").locator("[data-preview]")).to_contain_text("needs attention")


def rules(instance: Instance) -> int:
    return len(instance.rest("GET", RULES)[1]["rows"])


def prepare_definitions(page: Page, instance: Instance) -> None:
    page.goto("/c/standalone/definitions")
    answer = instance.rest("GET", "/api/v1/clusters/standalone/definitions?format=json")[1]
    document = answer if isinstance(answer, dict) else json.loads(answer)
    document["topics"][TOPIC] = {"partitions": 2}
    page.get_by_label("Definitions in YAML or JSON").fill(json.dumps(document))
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("button", name="Preview 1 change")).to_be_enabled()


def change_sets(instance: Instance) -> int:
    return int(instance.rest("GET", "/api/v1/clusters/standalone/changes")[1]["total"])


class Change(NamedTuple):
    """A change by a page, made by ``button`` with a call to an address that ends with ``path``. ``count`` returns how
    many of the objects that it makes there are."""

    prepare: Callable[[Page, Instance], None]
    button: str
    path: str
    count: Callable[[Instance], int]


CHANGES = {
    "rule": Change(prepare_rule, "Save", "/alerts/rules", rules),
    "definitions": Change(
        prepare_definitions, "Preview 1 change", "/definitions/apply", change_sets
    ),
}


@pytest.fixture(autouse=True)
def remove_rules(instance: Instance) -> Iterator[None]:
    yield
    for row in instance.rest("GET", RULES)[1]["rows"]:
        instance.rest("DELETE", f"{RULES}/{row['id']}")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_that_was_made_and_not_answered_is_not_known(
    page: Page, instance: Instance, name: str
) -> None:
    change = CHANGES[name]
    change.prepare(page, instance)
    before = change.count(instance)

    def lose(route: Route) -> None:
        if route.request.method != "POST":
            route.continue_()
            return
        assert route.fetch().ok
        route.abort("connectionreset")

    page.route(f"**{change.path}*", lose)
    page.get_by_role("button", name=change.button, exact=True).click()
    expect(page.get_by_role("alert").filter(has_text=NOT_KNOWN)).to_be_visible()
    assert change.count(instance) == before + 1
    page.unroute(f"**{change.path}*")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_whose_gateway_is_killed_is_not_known(
    page: Page, window: Window, instance: Instance, name: str
) -> None:
    change = CHANGES[name]
    change.prepare(page, instance)
    pid = int(instance.child("gateway")["pid"])
    os.kill(pid, signal.SIGSTOP)
    with page.expect_request(f"**{change.path}*"):
        page.get_by_role("button", name=change.button, exact=True).click()
    instance.control("kill", "gateway")
    expect(page.get_by_role("alert").filter(has_text=NOT_KNOWN)).to_be_visible()
    instance.wait_running("gateway")
    expect(page.locator("[data-status-line]")).to_contain_text("All parts answer")
    # The live feed connects to the killed gateway until it is back, which the browser logs.
    window.problems[:] = [text for text in window.problems if "ERR_CONNECTION" not in text]

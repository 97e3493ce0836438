"""The console in German: no text of its pages and dialogs stays English, and English again."""

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.german import GermanWalk, choose_german
from tests.support.life.cast import CLUSTER
from tests.support.life.life import Life
from tests.support.life.screenshots import PAGES, of

MORE = (
    *("bookies", "definitions", "geo", "roles", "roles/reader", "settings"),
    *("functions/new?component=sink&connector=kafka", "topics?attention=any"),
)
"""Pages of a cluster, besides those of the screenshots."""
TABS = ("messages", "traces", "access", "policies", "tail", "publish")
"""Tabs of a topic and pages below it, besides those of the screenshots."""
OTHERS = ("/account", "/alerts", "/alerts?tab=rules", "/alerts?tab=channels", "/audit")
FORMS = (
    f"/c/{CLUSTER}/settings",
    f"/c/{CLUSTER}/bookies",
    f"/c/{CLUSTER}/tenants",
    f"/c/{CLUSTER}/topics",
    of("invoices", "policies"),
    "/alerts?tab=channels",
)
"""Pages whose dialogs get a wrong value."""
WRONG = "a b/"
"""A value that is neither a name nor a number."""


@pytest.fixture
def german(page: Page, life: Life) -> Page:
    """A page in German."""
    page.goto("/")
    choose_german(page)
    return page


def paths() -> list[str]:
    """Return the addresses of all pages."""
    more = [f"/c/{CLUSTER}/{path}" for path in MORE]
    tabs = [of("invoices", tab) for tab in TABS]
    return [*dict.fromkeys((*PAGES.values(), *more, *tabs, *OTHERS))]


@pytest.mark.timeout(300)
def test_no_text_of_a_page_or_dialog_stays_english_once_german_is_chosen(german: Page) -> None:
    walk = GermanWalk(german)
    for path in paths():
        walk.go(path)
        walk.dialogs(path)
    german.keyboard.press("Control+k")
    walk.look("palette")
    german.keyboard.press("Escape")
    assert not walk.problems, walk.report()
    assert not walk.given, walk.report()

    german.get_by_label("Sprache").select_option("en")
    expect(german.get_by_role("navigation", name="Main")).to_contain_text("Overview")
    assert german.evaluate("localStorage.getItem('magnetar-words')") is None


@pytest.mark.timeout(200)
def test_refusals_of_forms_are_shown_in_german(german: Page) -> None:
    walk = GermanWalk(german)
    for path in FORMS:
        walk.go(path)
        walk.dialogs(path, fill=WRONG)
    assert not walk.problems, walk.report()
    assert not walk.given, walk.report()

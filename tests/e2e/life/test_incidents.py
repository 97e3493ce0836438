"""The console while parts of an instance are killed or frozen: no backlog is shown too low, and the part is named.
``INCIDENTS=all`` tries every part, killed and frozen, on every route."""

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.e2e.life.watching import STATUS, Look, forget_looks, looks, number, try_goto, watched
from tests.support.life.cast import CLUSTER, KEPT, STORIES
from tests.support.life.life import Life, console_path
from tests.support.waiting import until_blocking

EVERYTHING = os.environ.get("INCIDENTS") == "all"
WATCH_S = 60.0 if EVERYTHING else 8.0
PATIENCE_MS = 60_000
INVOICES = next(story for story in STORIES if story.topic.endswith("/invoices"))
AT_REST = next(story for story in STORIES if story.topic.endswith("/at-rest"))
PAGES = {
    "overview": "/",
    "topics": f"/c/{CLUSTER}/topics",
    "topic": console_path(INVOICES),
    "subscriptions": console_path(INVOICES, "subscriptions"),
    "at rest": f"/c/{CLUSTER}/topics?q=at-rest",
}
SHOWN = """() => Object.values(sessionStorage).some(
  (look) => /\\[".*","([≈≥] )?[1-9]/.test(look))"""
"""JavaScript: the page has shown a backlog."""
ROUNDING = 0.99
"""Tolerance for rounded figures such as 12.1K."""


@pytest.fixture(scope="module")
def context(browser: Browser, life: Life) -> Iterator[BrowserContext]:
    with browser.new_context(
        base_url=life.instance.http, viewport={"width": 1440, "height": 900}
    ) as context:
        yield context


@pytest.fixture(scope="module")
def watch(context: BrowserContext) -> Callable[[dict[str, str]], dict[str, Page]]:
    """Return a function that returns the pages at the given paths, well and without earlier samples.

    It opens those that are missing and closes all others: incident follows incident under the same pages.
    """
    pages: dict[str, Page] = {}

    def watch_only(paths: dict[str, str]) -> dict[str, Page]:
        for name in pages.keys() - paths.keys():
            pages.pop(name).close()
        for page in pages.values():
            for _ in range(2):  # the figures from now on are not older than this call
                expect(page.locator(STATUS)).not_to_have_text(page.locator(STATUS).inner_text())
            forget_looks(page)
        for name in paths.keys() - pages.keys():
            pages[name] = watched(context, paths[name])
        for page in pages.values():
            until_well(page)
        return dict(pages)

    return watch_only


def floors(life: Life) -> dict[str, int]:
    """Return the least true value of each backlog, by all names that pages use for it."""
    waiting = life.waiting()
    known = {**waiting, "overview": sum(waiting.values()), "at rest": waiting[AT_REST.topic]}
    known |= {s.path.split("/", 2)[2]: waiting[s.topic] for s in STORIES if s.role in KEPT}
    known[f"Subscription {INVOICES.subscription}"] = waiting[INVOICES.topic]
    return known


def too_low(seen: list[Look], floor: dict[str, int], of_page: int) -> list[str]:
    """Return the backlogs shown below their true value without a mark, and zeros even with one.

    ``of_page`` is the least true value of a backlog without a name.
    """
    problems = []
    for look in seen:
        for whose, text, marked in look.figures:
            shown, least = number(text), floor.get(whose, of_page if whose == "Backlog" else 0)
            if shown is None or shown >= least * ROUNDING:
                continue
            if shown == 0 or not (marked or look.is_stale):
                problems.append(f"{whose}: {text!r}, not {least}, under {look.status!r}")
    return problems


def until_well(page: Page) -> None:
    expect(page.locator(STATUS)).to_contain_text("All parts answer", timeout=PATIENCE_MS)
    expect(page.locator(STATUS)).to_contain_text("Live", timeout=PATIENCE_MS)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "parts", [("broker-1",), ("gateway",), ("broker-1", "broker-2", "gateway")], ids="+".join
)
def test_no_backlog_is_shown_too_low_without_a_mark(
    life: Life, watch: Callable[[dict[str, str]], dict[str, Page]], parts: tuple[str, ...]
) -> None:
    """Kill parts, which restart by themselves; pages stay open, one is loaded repeatedly."""
    floor = floors(life)
    pages = watch({**PAGES, "loaded again": PAGES["topics"]})
    loaded_again = pages["loaded again"]
    for page in pages.values():
        page.wait_for_function(SHOWN)
    for part in parts:
        life.instance.control("kill", part)
    until = time.monotonic() + WATCH_S
    while time.monotonic() < until:
        if not try_goto(loaded_again, PAGES["topics"]):
            loaded_again.wait_for_timeout(200)
        loaded_again.wait_for_timeout(1_500)
    for part in parts:
        life.instance.wait_running(part)
    try_goto(loaded_again, PAGES["topics"])
    problems = []
    for name, page in pages.items():
        until_well(page)
        seen = looks(page)
        assert any(look.figures for look in seen), name
        low = too_low(seen, floor, floor.get(name, floor[INVOICES.topic]))
        problems += [f"{name}: {problem}" for problem in low]
    assert not problems, "\n".join(problems)


HOPS = {
    "zookeeper": "metadata store",
    "broker-1": "broker",
    "bookie-1": "bookie",
    "redis": "redis",
    "gateway": "gateway",
}
WAYS = ("killed", "frozen")
QUICK = {("zookeeper", "killed"), ("broker-1", "frozen"), ("bookie-1", "killed")}
QUICK |= {("redis", "killed"), ("gateway", "frozen"), ("zookeeper", "frozen")}
ROUTES = {
    **PAGES,
    "tenants": f"/c/{CLUSTER}/tenants",
    "brokers": f"/c/{CLUSTER}/brokers",
    "bundles": f"/c/{CLUSTER}/bundles",
    "bookies": f"/c/{CLUSTER}/bookies",
    "settings": f"/c/{CLUSTER}/settings",
    "analyses": "/analyses",
    "dead letters": f"/c/{CLUSTER}/dead-letters",
    "copies": f"/c/{CLUSTER}/copies",
    "changes": f"/c/{CLUSTER}/changes",
    "definitions": f"/c/{CLUSTER}/definitions",
    "alerts": "/alerts",
    "clients": f"/c/{CLUSTER}/clients",
    "transactions": f"/c/{CLUSTER}/transactions",
    "functions": f"/c/{CLUSTER}/functions",
}
QUICK_ROUTES = ("overview", "topics", "tenants", "bundles", "dead letters", "clients")


def has_redis(life: Life) -> bool:
    hops = life.instance.rest("GET", "/api/v1/health")[1]["hops"]
    return any((hop["hop"], hop["state"]) == ("redis", "ok") for hop in hops)


def away(life: Life, part: str, way: str) -> AbstractContextManager[None]:
    return life.without(part) if way == "killed" else life.frozen(part)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("part", "way"),
    [(p, w) for p in HOPS for w in WAYS if EVERYTHING or (p, w) in QUICK],
)
def test_an_unavailable_part_is_named_on_every_page_until_it_is_available(
    life: Life,
    context: BrowserContext,
    watch: Callable[[dict[str, str]], dict[str, Page]],
    part: str,
    way: str,
) -> None:
    routes = ROUTES if EVERYTHING else {name: ROUTES[name] for name in QUICK_ROUTES}
    if part == "redis":
        life.instance.control("start", "worker")
        until_blocking(lambda: has_redis(life), "Redis answers the gateway")
    pages = watch(routes)
    named = re.compile(HOPS[part], re.IGNORECASE)
    with ExitStack() as stack:
        began = time.monotonic()
        stack.enter_context(away(life, part, way))
        took = {}
        for name, page in pages.items():
            expect(page.locator(STATUS)).to_contain_text(named, timeout=PATIENCE_MS)
            took[name] = round(time.monotonic() - began, 1)
        print(f"{part} {way}: named after {max(took.values())} s")
        if part != "gateway":
            opened = context.new_page()
            began = time.monotonic()
            opened.goto("/")
            expect(opened.get_by_role("heading", level=1)).to_be_visible(timeout=PATIENCE_MS)
            expect(opened.locator(STATUS)).to_contain_text(named, timeout=PATIENCE_MS)
            print(f"{part} {way}: a new page names it after {time.monotonic() - began:.1f} s")
            opened.close()
        if EVERYTHING:
            next(iter(pages.values())).wait_for_timeout(10_000)
            for page in pages.values():
                expect(page.locator(STATUS)).to_contain_text(named)
    for page in pages.values():
        until_well(page)

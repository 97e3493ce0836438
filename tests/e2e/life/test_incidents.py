"""The console while parts of an instance are killed or frozen: no backlog is shown too low, and the part is named.
``INCIDENTS=all`` tries every part, killed and frozen, on every route."""

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from re import Pattern
from statistics import median

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.e2e.life.watching import (
    LOOK,
    STATUS,
    Look,
    forget_looks,
    looks,
    number,
    try_goto,
    watched,
)
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
        context.set_default_timeout(PATIENCE_MS)  # a busy machine opens 19 pages slowly
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
        for _ in range(2):  # the figures from now on are not older than this call
            before = {name: page.locator(STATUS).inner_text() for name, page in pages.items()}
            for name, page in pages.items():
                expect(page.locator(STATUS)).not_to_have_text(before[name])
        for page in pages.values():
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
    "broker-1": r"broker \S+:\d",
    "bookie-1": r"bookie \S*\d",
    "functions-worker": "functions worker",
    "redis": "redis",
    "gateway": "gateway",
}
"""Parts and their names in the status line."""
OF_NUMBERS = ("zookeeper", "broker-1", "gateway")
"""Parts without which the numbers of all pages are as last known."""
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
OPENED = {name: ROUTES[name] for name in ("overview", "topic", "functions", "definitions")}
"""Pages that are opened while a part is missing."""
SAMPLED = """(text) => Object.entries(sessionStorage).some(
  ([key, look]) => key.startsWith("look ") && new RegExp(text, "i").test(look))"""
"""JavaScript: a sample of the page matches the text."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Seconds after which a part was named on the pages that were open, by page; the numbers marked as old; and the
    part named on pages that were opened meanwhile. ``load``: of the machine, mean of a minute."""

    part: str
    way: str
    named: dict[str, float]
    marked: dict[str, float]
    opened: dict[str, float]
    load: float

    def row(self) -> str:
        """Return a row of the table in docs/torture.md."""
        cells = [self.part, self.way, *map(spread, (self.named, self.marked, self.opened))]
        return f"| {' | '.join(cells)} | {self.load:.0f} |"


def spread(seconds: dict[str, float]) -> str:
    """Return the median and the largest, with its page."""
    if not seconds:
        return "–"
    slowest = max(seconds, key=lambda page: seconds[page])
    return f"{median(seconds.values()):.1f} s, {seconds[slowest]:.1f} s ({slowest})"


@pytest.fixture(scope="module")
def table() -> Iterator[list[Figures]]:
    """Figures of all parts, printed as a table at the end."""
    rows: list[Figures] = []
    yield rows
    print("\n| part | | named on open pages | numbers marked | named on new pages | load |")
    print("|---|---|---|---|---|---|")
    print("\n".join(row.row() for row in rows))


def has_redis(life: Life) -> bool:
    hops = life.instance.rest("GET", "/api/v1/health")[1]["hops"]
    return any((hop["hop"], hop["state"]) == ("redis", "ok") for hop in hops)


def away(life: Life, part: str, way: str) -> AbstractContextManager[None]:
    return life.without(part) if way == "killed" else life.frozen(part)


def first_after(page: Page, began_ms: float, is_so: Callable[[Look], object]) -> float | None:
    """Return after how many seconds the page first showed it, by the page's own samples; None if it has not."""
    times = [look.at_ms for look in looks(page) if look.at_ms >= began_ms and is_so(look)]
    return (times[0] - began_ms) / 1000 if times else None


def opened_times(
    context: BrowserContext, routes: dict[str, str], named: Pattern[str]
) -> dict[str, float]:
    """Open each page while a part is missing; return the seconds from its request until it names the part."""
    times = {}
    for name, path in routes.items():
        page = context.new_page()
        page.add_init_script(LOOK)
        began_ms = time.time() * 1000
        page.goto(path)
        expect(page.get_by_role("heading", level=1)).to_be_visible(timeout=PATIENCE_MS)
        expect(page.locator(STATUS)).to_contain_text(named, timeout=PATIENCE_MS)
        page.wait_for_function(SAMPLED, arg=named.pattern)
        times[name] = first_after(page, began_ms, lambda look: named.search(look.status)) or 0.0
        page.close()
    return times


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("part", "way"),
    [(p, w) for p in HOPS for w in WAYS if EVERYTHING or (p, w) in QUICK],
)
def test_an_unavailable_part_is_named_on_every_page_until_it_is_available(
    life: Life,
    context: BrowserContext,
    watch: Callable[[dict[str, str]], dict[str, Page]],
    table: list[Figures],
    part: str,
    way: str,
) -> None:
    """Allow more than the aim of 2 s, which docs/torture.md has measured: load must not fail this test."""
    routes = ROUTES if EVERYTHING else {name: ROUTES[name] for name in QUICK_ROUTES}
    if part == "redis":
        life.instance.control("start", "worker")
        until_blocking(lambda: has_redis(life), "Redis answers the gateway")
    pages = watch(routes)
    named = re.compile(HOPS[part], re.IGNORECASE)
    with ExitStack() as stack:
        began_ms = time.time() * 1000
        stack.enter_context(away(life, part, way))
        for page in pages.values():
            page.wait_for_function(SAMPLED, arg=named.pattern, timeout=PATIENCE_MS)
            if part in OF_NUMBERS:
                page.wait_for_function(SAMPLED, arg="Stale", timeout=PATIENCE_MS)
        load = os.getloadavg()[0]
        opened = {}
        if part != "gateway":
            is_whole = EVERYTHING and way == "killed"
            opened = opened_times(context, OPENED if is_whole else {"overview": "/"}, named)
        if EVERYTHING:
            next(iter(pages.values())).wait_for_timeout(10_000)
            for page in pages.values():
                expect(page.locator(STATUS)).to_contain_text(named)
    figures = Figures(part, way, {}, {}, opened, load)
    for name, page in pages.items():
        shown = first_after(page, began_ms, lambda look: named.search(look.status))
        assert shown is not None, f"{name} named the part for less than a sample"
        figures.named[name] = shown
        if part in OF_NUMBERS:
            figures.marked[name] = first_after(page, began_ms, lambda look: look.is_stale) or 0.0
    print(figures.row())
    table.append(figures)
    for page in pages.values():
        until_well(page)

"""The pages of an operator on an instance with traffic: problems by rank, no layout shifts, keys, every width, every
name, and a change that does what its preview showed."""

import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pulsar
import pytest
from playwright.sync_api import Browser, BrowserContext, Dialog, Page, expect

from tests.e2e.life.watching import STATUS
from tests.support.life.cast import CLUSTER, HOSTILE, STORIES, small_topics
from tests.support.life.life import Life, console_path

PATIENCE_MS = 60_000
STABLE_UPDATES = 8
"""Updates of the overview in which its first problem must stay the same."""
CLS_MAX = 0.01
SLOWDOWN = 3
"""Factor by which a page is slower than this machine, so that what arrives late does so on any machine."""
UPDATES_SLOW, UPDATES = 2, 5
"""Texts of the status line, one a second, that a slow page shows, and that it has shown when its shifts are read."""
WORST = "ha(s|ve) no consumer.*invoices"
LISTED = (
    "orders/invoices",
    "mail/statements",
    "ledger/payments",
    "ledger/refunds",
    "fleet/positions",
)
"""Topics that need attention. The overview shows five problems and may leave some of these out; the list has all."""
SHIFTS = (Path(__file__).parent / "shifts.js").read_text()
INVOICES = next(story for story in STORIES if story.topic.endswith("/invoices"))
TOPICS = f"/c/{CLUSTER}/topics"


def unlisted(life: Life) -> list[str]:
    """Return the topics that need attention but are missing in the list of those."""
    path = f"/api/v1/clusters/{CLUSTER}/topics?attention=any&limit=100"
    names = [row["name"] for row in life.instance.rest("GET", path)[1]["rows"]]
    return [topic for topic in LISTED if not any(name.endswith(topic) for name in names)]


@pytest.mark.timeout(300)
def test_the_worst_problem_is_first_with_its_cause_and_no_healthy_topic_is_listed(
    life: Life, page: Page
) -> None:
    page.goto("/")
    attention = page.get_by_role("region", name="Needs attention").get_by_role("listitem")
    expect(attention.first).to_contain_text(re.compile(WORST, re.DOTALL), timeout=PATIENCE_MS)
    until = time.monotonic() + PATIENCE_MS / 1000
    while missing := unlisted(life):
        assert time.monotonic() < until, missing
        page.wait_for_timeout(1_000)
    seen: set[str] = set()
    status_line = page.locator(STATUS)
    for _ in range(STABLE_UPDATES):
        expect(status_line).not_to_have_text(status_line.text_content() or "")
        items = attention.all_inner_texts()
        assert len(items) == 5
        assert re.search(WORST, items[0], re.DOTALL)
        seen |= set(items)
    healthy = ("noise-", "checkout", "exclusive", "ticks", *HOSTILE)
    assert not [text for text in seen if any(f"/{name}" in text for name in healthy)]


def loaded_slowly(context: BrowserContext, path: str) -> Page:
    """Load a page with a slow processor behind a slow network; return it, with its usual speed, after its first update.

    It records its layout shifts. A slowed process uses its share of a processor up even when it has nothing to do.
    """
    page = context.new_page()
    protocol = context.new_cdp_session(page)
    protocol.send("Emulation.setCPUThrottlingRate", {"rate": SLOWDOWN})
    unlimited = {"downloadThroughput": -1, "uploadThroughput": -1}
    protocol.send(
        "Network.emulateNetworkConditions", {"offline": False, "latency": 100, **unlimited}
    )
    page.add_init_script(SHIFTS)
    page.goto(path)
    expect(page.get_by_text("invoices").first).to_be_visible(timeout=PATIENCE_MS)
    wait_for_updates(page, UPDATES_SLOW)
    protocol.send("Emulation.setCPUThrottlingRate", {"rate": 1})
    return page


def wait_for_updates(page: Page, count: int) -> None:
    page.wait_for_function(f"() => window.updates.size >= {count}", timeout=PATIENCE_MS)


@pytest.mark.timeout(300)
def test_live_pages_do_not_shift_their_layout(life: Life, browser: Browser, page: Page) -> None:
    """Open each page in its own window: a browser does not lay out a page in the background."""
    # A cause that is found while a card is shown moves the rest of the card.
    page.goto(console_path(INVOICES, "subscriptions"))
    expect(page.get_by_label("Why is it not draining?")).to_be_visible()
    page.goto("about:blank")
    paths = ("/", TOPICS, console_path(INVOICES), console_path(INVOICES, "subscriptions"))
    contexts = [
        browser.new_context(base_url=life.instance.http, viewport={"width": 1280, "height": 800})
        for _ in paths
    ]
    pages = [loaded_slowly(*pair) for pair in zip(contexts, paths, strict=True)]
    for page in pages:
        wait_for_updates(page, UPDATES)
    shifted = {
        path: page.evaluate("[window.shifted, window.shifts]")
        for page, path in zip(pages, paths, strict=True)
    }
    for context in contexts:
        context.close()
    excess = {path: shifts for path, (total, shifts) in shifted.items() if total > CLS_MAX}
    assert not excess, json.dumps(excess, indent=1, ensure_ascii=False)


def test_escape_restores_the_focus_and_back_restores_the_page(page: Page, life: Life) -> None:
    page.goto(console_path(INVOICES))
    views = page.get_by_role("navigation", name="Views of the topic")
    views.get_by_role("link", name=re.compile("^Subscriptions")).click()
    opener = page.get_by_role("button", name=re.compile("^Skip all"))
    opener.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(opener).to_be_focused()
    page.go_back()
    expect(page).to_have_url(re.compile("/invoices/overview"))

    page.goto(TOPICS)
    expect(page.get_by_role("link", name=re.compile("invoices"))).to_be_visible()
    page.get_by_role("textbox").first.fill("payments")
    expect(page.get_by_role("link", name=re.compile("invoices"))).to_have_count(0)
    page.go_back()
    expect(page.get_by_role("link", name=re.compile("invoices"))).to_be_visible()


@pytest.mark.parametrize("width", [375, 1280])
def test_the_sorted_column_is_on_the_screen(life: Life, page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 812})
    for sort, title in (("-backlog", "Backlog"), ("-storage_bytes", "Stored")):
        page.goto(f"{TOPICS}?sort={sort}")
        head = page.get_by_role("columnheader", name=re.compile(title))
        expect(head).to_be_visible()
        expect(page.get_by_role("link", name=re.compile("invoices"))).to_be_visible()
        box = head.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
        clipped = head.evaluate("(head) => head.scrollWidth > head.clientWidth + 1")
        assert not clipped, f"{title} is cut at {width} px"
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.timeout(300)
def test_every_name_is_shown_unchanged_and_links_to_its_topic(life: Life, page: Page) -> None:
    alerts: list[str] = []

    def alerted(dialog: Dialog) -> None:
        alerts.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", alerted)
    for story in small_topics()[: len(HOSTILE)]:
        local = story.topic.split("/", 4)[4]
        page.goto(f"{TOPICS}?q={quote(local, safe='')}")
        link = page.locator(".topic-link").filter(has_text=local).first
        expect(link).to_be_visible()
        link.click()
        expect(page.get_by_role("heading", level=1)).to_contain_text(local)
        page.goto(console_path(story, "subscriptions"))
        card = page.get_by_role("heading", level=2).filter(has_text=local)
        expect(card.first).to_be_visible()
    page.remove_listener("dialog", alerted)
    assert alerts == []


@contextmanager
def arriving(url: str, topic: str, per_s: int) -> Iterator[list[int]]:
    """Publish messages while the context is open; the yielded list holds the number of confirmed ones."""
    client = pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    client.subscribe(topic, "behind", pulsar.ConsumerType.Shared).close()
    producer = client.create_producer(topic, batching_enabled=False, block_if_queue_full=True)
    confirmed = [0]
    stop = threading.Event()

    def count(result: pulsar.Result, _: object) -> None:
        confirmed[0] += result == pulsar.Result.Ok

    def work() -> None:
        while not stop.wait(0.02):
            for _ in range(per_s // 50):
                producer.send_async(b"arrives", count)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield confirmed
    finally:
        stop.set()
        thread.join(30)
        producer.flush()
        client.close()


def cursor(life: Life, topic: str) -> dict[str, object]:
    """Return the acknowledged positions of the subscription, as the broker stores them."""
    _, stats = life.instance.rest("GET", f"/admin/v2/{topic.replace('://', '/')}/internalStats")
    stored = stats["cursors"]["behind"]
    return {key: stored[key] for key in ("markDeletePosition", "individuallyDeletedMessages")}


def backlog(life: Life, topic: str) -> int:
    _, stats = life.instance.rest("GET", f"/admin/v2/{topic.replace('://', '/')}/stats")
    return int(stats["subscriptions"]["behind"]["msgBacklog"])


@pytest.mark.timeout(300)
def test_a_skip_under_load_discards_what_was_previewed_and_can_be_undone(
    life: Life, page: Page
) -> None:
    topic = "persistent://public/default/rush"
    with arriving(life.instance.url, topic, 1_000) as confirmed:
        while confirmed[0] < 500:
            time.sleep(0.05)
        before = cursor(life, topic)
        page.goto(f"/c/{CLUSTER}/t/public/default/rush/subscriptions?act=skip-all&sub=behind")
        apply = page.get_by_role("button", name=re.compile("^Discard"))
        expect(apply).to_be_enabled(timeout=PATIENCE_MS)
        previewed = int(re.sub(r"\D", "", apply.inner_text()))
        seen = confirmed[0]
        while confirmed[0] < seen + 1_000:  # meanwhile more of them arrive
            time.sleep(0.05)
        apply.click()
        done = page.get_by_role("dialog").get_by_role("status")
        expect(done).to_contain_text(f"{previewed:,} messages discarded", timeout=PATIENCE_MS)
    assert confirmed[0] - backlog(life, topic) == previewed
    page.get_by_role("button", name="Undo", exact=True).click()
    expect(done).to_contain_text("delivered again", timeout=PATIENCE_MS)
    assert backlog(life, topic) == confirmed[0]
    assert cursor(life, topic) == before
    life.instance.rest("DELETE", f"/admin/v2/{topic.replace('://', '/')}?force=true")

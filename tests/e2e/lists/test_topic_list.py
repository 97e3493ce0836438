"""The list of topics, a partitioned topic and the palette, in a real browser on a real instance."""

import csv
import io
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pulsar
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.support.instance import Instance

ADMIN = "/admin/v2/persistent/public/default"
LIST = "/c/standalone/topics"
WIDTHS = (375, 768, 1280, 1920)
ALWAYS = ("Topic", "State", "Trend", "Backlog")
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
PARTITIONED = "persistent://public/default/listed-parts"
AGAIN_MS = 30_000


@pytest.fixture(scope="module", autouse=True)
def topics(instance: Instance) -> Iterator[None]:
    """Fourteen topics, two of them with awkward names, and a partitioned one with a producer."""
    for number in range(12):
        name = f"{ADMIN}/listed-rather-long-name-of-number-{number}"
        assert instance.rest("PUT", name)[0] in (204, 409)
    for name in ("%3Cb%3Elisted%26bold", "listed-%D0%BF%D1%80%D0%B8%D0%B2%D0%B5%D1%82"):
        assert instance.rest("PUT", f"{ADMIN}/{name}")[0] in (204, 409)
    assert instance.rest("PUT", f"{ADMIN}/listed-parts/partitions", 3)[0] in (204, 409)
    client = pulsar.Client(instance.url)
    client.subscribe(PARTITIONED, "readers", consumer_type=pulsar.ConsumerType.Shared)
    producer = client.create_producer(PARTITIONED)
    for number in range(30):
        producer.send(b"x" * 100, partition_key=str(number))
    yield
    client.close()


def headers(page: Page) -> list[dict[str, Any]]:
    """Return the columns shown: text, sort order, whether it is cut, and whether it is within the window."""
    columns: list[dict[str, Any]] = page.get_by_role("columnheader").evaluate_all(
        """(all) => all.map((head) => ({
          text: head.firstChild.textContent, sort: head.getAttribute("aria-sort"),
          cut: head.scrollWidth > head.clientWidth,
          inside: head.getBoundingClientRect().right <= innerWidth && head.getBoundingClientRect().left >= 0,
        }))"""
    )
    return columns


def cut_states(page: Page) -> list[str]:
    """Return the words of a state badge that do not fit into its column."""
    problems = page.get_by_label("State", exact=True).locator("option").all_inner_texts()
    words = [*problems, "Not known", "Last known", "At rest", "Active", "Idle"]
    cut: list[str] = page.evaluate(
        """(words) => {
          const heads = [...document.querySelectorAll("[role=columnheader]")];
          const column = heads.findIndex((head) => head.textContent === "State");
          const cell = document.querySelectorAll("[role=row]")[1].children[column];
          const text = cell.querySelector("span[title] > span").lastChild;
          const before = text.textContent;
          const cut = words.filter((word) => {
            text.textContent = word;
            return cell.scrollWidth > cell.clientWidth;
          });
          text.textContent = before;
          return cut;
        }""",
        [word for word in words if word not in ("Any state", "Needs attention")],
    )
    return cut


def row_count(page: Page, rows: int) -> None:
    expect(page.get_by_role("grid", name="Topics")).to_have_attribute(
        "aria-rowcount", str(rows + 1), timeout=AGAIN_MS
    )


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("scheme", "widths"), [("light", WIDTHS), ("dark", WIDTHS[:1])])
def test_important_columns_are_shown_at_every_width(
    browser: Browser, instance: Instance, axe_source: str, scheme: str, widths: tuple[int, ...]
) -> None:
    problems = []
    context = browser.new_context(
        base_url=instance.http,
        color_scheme=scheme,  # type: ignore[arg-type]
        reduced_motion="reduce",
        bypass_csp=True,  # for axe's own script
    )
    page = context.new_page()
    for width in widths:
        page.set_viewport_size({"width": width, "height": 812})
        for sort, title in (("-backlog", "Backlog"), ("-bytes_rate_out", "Bytes out")):
            page.goto(f"{LIST}?sort={sort}")
            expect(page.get_by_role("gridcell").first).to_be_visible(timeout=AGAIN_MS)
            shown = headers(page)
            missing = {*ALWAYS, title} - {column["text"] for column in shown if column["inside"]}
            cut = [column["text"] for column in shown if column["cut"]]
            sorted_by = [column["text"] for column in shown if column["sort"] == "descending"]
            if missing or cut or sorted_by != [title]:
                problems.append(f"{width}px {sort}: {missing=} {cut=} {sorted_by=}")
            if states := cut_states(page):
                problems.append(f"{width}px {sort}: {states=}")
            if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                problems.append(f"{width}px scrolls sideways")
        for name in ("Views", "Columns", "Export"):
            page.get_by_role("button", name=name).click()
            expect(page.get_by_role("dialog", name=name)).to_be_visible()
            page.evaluate(axe_source)
            tags = "(tags) => axe.run('[role=dialog]', {runOnly: {type: 'tag', values: tags}})"
            for violation in page.evaluate(tags, RULES)["violations"]:
                nodes = [node["html"][:160] for node in violation["nodes"][:2]]
                problems.append(f"{width}px {name}: {violation['id']}: {nodes}")
            page.keyboard.press("Escape")
            expect(page.get_by_role("button", name=name)).to_be_focused()
    context.close()
    assert not problems, "\n".join(problems)


@pytest.mark.timeout(120)
def test_filters_and_tabs_are_undone_by_back(page: Page) -> None:
    page.goto(LIST)
    words = page.get_by_label("Filter by name")
    words.press_sequentially("NUMBER listed 1", delay=30)
    row_count(page, 3)  # 1, 10, 11
    expect(page).to_have_url(re.compile(r"q=NUMBER\+listed\+1$"))
    page.get_by_label("Domain").select_option("non-persistent")
    expect(page.get_by_text("No topic matches")).to_be_visible(timeout=AGAIN_MS)
    page.go_back()
    row_count(page, 3)
    page.go_back()
    expect(words).to_have_value("")
    expect(page).to_have_url(re.compile(r"/topics$"))

    page.goto("/c/standalone/t/public/default/listed-parts/overview")
    tabs = page.get_by_role("navigation", name="Views of the topic")
    tabs.get_by_role("link", name="Partitions").click()
    expect(page).to_have_url(re.compile("/partitions$"))
    page.go_back()
    expect(page).to_have_url(re.compile("/overview$"))


@pytest.mark.timeout(120)
def test_tenant_and_namespace_are_picked(page: Page) -> None:
    page.goto(LIST)
    picker = page.get_by_role("combobox", name="Namespace")
    picker.click()
    picker.press_sequentially("def pub")
    expect(page.get_by_role("option", name="public/default")).to_be_visible(timeout=AGAIN_MS)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("tenant=public&namespace=default"))
    expect(picker).to_have_value("public/default")


@pytest.mark.timeout(120)
def test_chosen_columns_are_kept_in_the_browser_and_the_address(
    context: BrowserContext, browser: Browser, instance: Instance
) -> None:
    page = context.new_page()
    page.goto(LIST)
    page.get_by_role("button", name="Columns").click()
    page.get_by_role("checkbox", name="Tenant").check()
    page.get_by_role("checkbox", name="Consumers").uncheck()
    shown = [column["text"] for column in headers(page)]
    assert "Tenant" in shown
    assert "Consumers" not in shown
    link = page.url
    other = context.new_page()
    other.goto(LIST)
    expect(other.get_by_role("columnheader", name="Tenant")).to_be_visible(timeout=AGAIN_MS)
    assert [column["text"] for column in headers(other)] == shown
    stranger = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    stranger.goto(link if link.startswith("http") else f"{instance.http}{link}")
    expect(stranger.get_by_role("columnheader", name="Tenant")).to_be_visible(timeout=AGAIN_MS)
    assert [column["text"] for column in headers(stranger)] == shown
    stranger.context.close()


@pytest.mark.timeout(300)
def test_a_view_is_saved_opened_renamed_and_deleted(page: Page) -> None:
    page.goto(f"{LIST}?q=listed&sort=topic&columns=tenant")
    row_count(page, 15)
    page.get_by_role("button", name="Views").click()
    menu = page.get_by_role("dialog", name="Views")
    name = menu.get_by_label("Save what is shown now as a view")
    name.fill("Listed ones")
    name.press("Enter")
    expect(menu.get_by_role("link", name="Listed ones")).to_be_visible(timeout=AGAIN_MS)
    name.fill("Listed ones")
    name.press("Enter")
    expect(menu).to_contain_text("A view named Listed ones exists already", timeout=AGAIN_MS)
    menu.get_by_role("button", name="Rename Listed ones").click()
    menu.get_by_label("New name of Listed ones").fill("By name")
    page.keyboard.press("Enter")
    expect(menu.get_by_role("link", name="By name")).to_be_visible(timeout=AGAIN_MS)

    page.goto("/")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible(timeout=AGAIN_MS)
    page.keyboard.press("Control+k")
    expect(page.get_by_label("Open a topic or a place").last).to_be_focused()
    page.keyboard.type("view by name")
    options = page.locator("#palette-list [data-action]")
    expect(options.first).to_contain_text("By name", timeout=AGAIN_MS)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"q=listed.*sort=topic.*columns=tenant|columns=tenant.*"))
    row_count(page, 15)
    expect(page.get_by_role("columnheader", name="Tenant")).to_be_visible()

    page.goto(LIST)
    page.get_by_role("button", name="Views").click()
    menu.get_by_role("link", name="By name").click()
    row_count(page, 15)
    page.get_by_role("button", name="Views").click()
    menu.get_by_role("button", name="Delete By name").click()
    menu.get_by_role("button", name="Delete it").click()
    expect(menu).to_contain_text("No view is saved yet", timeout=AGAIN_MS)


@pytest.mark.timeout(120)
def test_the_list_is_exported_as_it_is_filtered_and_sorted(page: Page, instance: Instance) -> None:
    page.goto(f"{LIST}?q=listed&sort=topic")
    expect(page.get_by_role("gridcell").first).to_be_visible(timeout=AGAIN_MS)
    page.get_by_role("button", name="Export").click()
    menu = page.get_by_role("dialog", name="Export")
    path = menu.get_by_role("link", name="CSV").get_attribute("href")
    command = menu.get_by_role("region", name="curl command").inner_text()
    assert command.endswith(f"'{instance.http}{path}'")
    lines = list(csv.DictReader(io.StringIO(page.request.get(str(path)).text())))
    topics = [line["name"].rpartition("/")[2] for line in lines]
    assert topics == sorted(topics)
    row_count(page, len(topics))
    assert "<b>listed&bold" in topics
    json_path = str(menu.get_by_role("link", name="JSON").get_attribute("href"))
    rows = page.request.get(json_path).json()
    assert [row["topic"] for row in rows] == topics
    by_name = {line["name"]: line for line in lines}
    assert by_name[PARTITIONED]["backlog"] == "30"


@pytest.mark.timeout(120)
def test_a_partitioned_topic_shows_its_partitions_and_one_producer(page: Page) -> None:
    page.goto("/c/standalone/t/public/default/listed-parts/partitions")
    grid = page.get_by_role("grid", name="Partitions of the topic")
    expect(grid.get_by_role("row")).to_have_count(4, timeout=AGAIN_MS)
    backlogs = grid.locator("[role=gridcell][aria-colindex='4']").all_inner_texts()
    assert sum(map(int, backlogs)) == 30
    tabs = page.get_by_role("navigation", name="Views of the topic")
    tabs.get_by_role("link", name="Overview").click()
    producers = page.get_by_role("table", name="Producers of the topic").locator("tbody tr")
    expect(producers).to_have_count(1)
    expect(producers).to_contain_text("all 3")
    tabs.get_by_role("link", name="Subscriptions").click()
    page.get_by_text("Positions on 3 partitions").click()
    positions = page.get_by_role("table", name="Positions of readers").locator("tbody tr")
    expect(positions).to_have_count(3)


@pytest.mark.timeout(300)
def test_only_visible_partitions_are_in_the_document(page: Page, instance: Instance) -> None:
    topic, count = "persistent://public/default/many-parts", 150
    path = f"{ADMIN}/many-parts/partitions"
    assert instance.rest("PUT", path, count)[0] in (204, 409)
    client = pulsar.Client(instance.url)
    client.subscribe(topic, "readers", consumer_type=pulsar.ConsumerType.Shared)
    page.goto("/c/standalone/t/public/default/many-parts/partitions")
    grid = page.get_by_role("grid", name="Partitions of the topic")
    expect(grid).to_have_attribute("aria-rowcount", str(count + 1), timeout=AGAIN_MS)
    assert grid.get_by_role("row").count() < 60
    grid.get_by_role("gridcell").first.click()
    expect(page).to_have_url(re.compile("many-parts-partition-0/overview"))
    page.go_back()
    grid.get_by_role("columnheader").first.focus()
    page.keyboard.press("Control+End")
    expect(grid.get_by_role("link", name=str(count - 1), exact=True)).to_be_visible()

    tabs = page.get_by_role("navigation", name="Views of the topic")
    for tab, named in (("Overview", "Ledgers"), ("Subscriptions", "Positions of readers")):
        tabs.get_by_role("link", name=tab).click()
        table = page.locator("table", has=page.locator("caption", has_text=named))
        expect(table).to_have_attribute("aria-rowcount", str(count + 1))
        assert page.locator("tbody tr").count() < 120  # of three tables at most
    client.close()


@pytest.mark.timeout(120)
def test_the_palette_works_by_keyboard_alone(
    browser: Browser, instance: Instance, axe_source: str
) -> None:
    context = browser.new_context(base_url=instance.http, bypass_csp=True)
    page = context.new_page()
    page.goto(LIST)
    expect(page.get_by_role("gridcell").first).to_be_visible(timeout=AGAIN_MS)
    options = page.locator("#palette-list [data-action]")

    def search(text: str) -> None:
        page.keyboard.press("Control+k")
        expect(page.get_by_label("Open a topic or a place").last).to_be_focused()
        page.keyboard.type(text)

    search("skip all parts listed")
    expect(options.first).to_contain_text("Skip all…", timeout=AGAIN_MS)
    page.keyboard.press("Enter")
    expect(options.first).to_contain_text("Skip all… readers", timeout=AGAIN_MS)
    page.evaluate(axe_source)
    tags = "(tags) => axe.run(document, {runOnly: {type: 'tag', values: tags}})"
    assert page.evaluate(tags, RULES)["violations"] == []
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_contain_text("30", timeout=AGAIN_MS)
    page.keyboard.press("Escape")
    expect(page).to_have_url(re.compile("/listed-parts/subscriptions$"))

    search("long 11")
    expect(options.first).to_contain_text("number-11", timeout=AGAIN_MS)
    page.keyboard.press("Tab")
    expect(options).to_contain_text(
        ["Open", "Subscriptions", "Copy the name", "Launch an analysis"]
    )
    page.keyboard.type("analysis")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/analyses.*number-11"))

    search("default public")
    expect(options.filter(has_text="namespace").first).to_be_visible(timeout=AGAIN_MS)
    page.keyboard.press("Escape")
    search("create tenant")
    expect(options).to_have_count(1, timeout=AGAIN_MS)
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="New tenant")).to_be_visible(timeout=AGAIN_MS)
    context.close()


@pytest.mark.timeout(120)
def test_changing_numbers_do_not_shift_the_layout(page: Page, instance: Instance) -> None:
    page.goto(LIST)
    page.evaluate(
        """() => { window.__shift = 0; new PerformanceObserver((list) => {
          for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.__shift += entry.value;
        }).observe({type: "layout-shift", buffered: true}) }"""
    )
    cell = page.get_by_role("row", name=re.compile("listed-parts")).get_by_role("gridcell").nth(3)
    expect(cell).to_contain_text("30", timeout=AGAIN_MS)
    client = pulsar.Client(instance.url)
    producer = client.create_producer(f"{PARTITIONED}-partition-0")
    for first, last in pairwise((30, 40, 1_000)):
        for _ in range(last - first):
            producer.send_async(b"y", None)
        producer.flush()
        expect(cell).to_contain_text(f"{last:,}", timeout=AGAIN_MS)
    client.close()
    assert page.evaluate("window.__shift") <= 0.02

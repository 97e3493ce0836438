"""A run from a topic's page to its result, in the browser."""

import csv
import re
import time

import pulsar
import pytest
from playwright.sync_api import Page, expect

from tests.e2e.axe import violations
from tests.e2e.german import GIVEN, choose_german, english
from tests.e2e.lists.test_sorted_lists import turn
from tests.support.analyses.topics_with_answers import dead_letters, hot_keys, publish
from tests.support.instance import Instance

KEYS = "persistent://public/default/page-keys"
FOLLOWED = "persistent://public/default/page-followed"
CANCEL_S = 5
CONTENT = re.compile(
    r"TimeoutError|ValueError|^SELECT |^broken JSON$|^\(the value\)$|^its producer named no schema"
)
"""English texts in cells: reasons of letters, a query, and names that links or queries compare."""


@pytest.fixture(scope="module", autouse=True)
def _answers(client: pulsar.Client) -> None:
    hot_keys(client, KEYS)
    publish(client, FOLLOWED, [(b"%d" % i, {}) for i in range(10)])


def launched_from_the_topic(page: Page, topic: str, title: str) -> None:
    page.goto(f"/c/standalone/t/public/default/{topic.rsplit('/', 1)[1]}/overview")
    page.get_by_role("button", name="Analyse", exact=True).click()
    page.get_by_role("button", name=f"Choose {title}").click()
    expect(page.locator("input[name=topic]")).to_have_value(topic)


def succeeded(page: Page) -> str:
    """Wait until the run of the page has succeeded; return its id."""
    page.wait_for_url(re.compile(r"/analyses/runs/[0-9a-f]{16}$"))
    expect(page.get_by_text("succeeded", exact=True).first).to_be_visible(timeout=150_000)
    return page.url.rsplit("/", 1)[1]


@pytest.mark.timeout(400)
def test_a_run_is_launched_read_downloaded_pinned_shared_repeated_and_compared(
    page: Page, instance: Instance, axe_source: str
) -> None:
    launched_from_the_topic(page, KEYS, "Hot keys")
    page.get_by_role("button", name="Start").click()
    first = succeeded(page)

    findings = page.get_by_role("region", name="In short")
    expect(findings).to_contain_text("hot")
    parts = page.locator("main section h2").all_inner_texts()
    assert parts[0] == "In short"
    expect(findings.get_by_role("link", name="Topic public/default/page-keys")).to_have_attribute(
        "href", "/c/standalone/t/public/default/page-keys/overview"
    )
    plot = page.get_by_role("region", name="Speed-up by number of consumers")
    plot.get_by_role("button", name="Show as table").click()
    expect(plot.get_by_role("table").locator("tbody tr").first).to_be_visible()
    page.evaluate(axe_source)
    assert violations(page, "result", "main") == []

    with page.expect_download() as download:
        page.get_by_role("link", name="hot_keys.csv").click()
    with open(download.value.path(), newline="") as file:
        rows = list(csv.DictReader(file))
    assert (rows[0]["key"], rows[0]["messages"]) == ("hot", "500")

    page.get_by_role("button", name="Pin", exact=True).click()
    expect(page.get_by_role("button", name="Unpin", exact=True)).to_be_visible()
    assert instance.rest("GET", f"/api/v1/runs/{first}")[1]["pinned"]

    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy the link to this run").click()
    shared = page.evaluate("navigator.clipboard.readText()")
    page.goto("/")
    page.goto(shared)
    expect(page.get_by_role("region", name="In short")).to_be_visible()

    page.get_by_role("button", name="Run again…").click()
    page.locator("input[name=consumers_max]").fill("4")
    page.locator("input[name=consumers_max]").press("Control+Enter")
    page.wait_for_url(lambda url: "/analyses/runs/" in url and first not in url)
    second = succeeded(page)
    page.get_by_label("Compare with").select_option(first)
    page.wait_for_url(f"**/analyses/runs/{second}/compare/{first}")
    changed = page.get_by_role("row", name=re.compile("^consumers_max"))
    expect(changed).to_contain_text("changed")
    expect(page.get_by_role("row", name=re.compile("^Messages 1,000 1,000 0.0 %"))).to_be_visible()
    page.evaluate(axe_source)
    assert violations(page, "comparison", "main") == []


@pytest.mark.timeout(300)
def test_the_pages_of_analyses_are_german_once_it_is_chosen(page: Page, instance: Instance) -> None:
    launched_from_the_topic(page, KEYS, "Hot keys")
    page.get_by_role("button", name="Start").click()
    run = succeeded(page)
    choose_german(page)
    rows = instance.rest("GET", "/api/v1/runs?offset=0&limit=50")[1]["rows"]
    others = [row["id"] for row in rows if row["analysis"] == "hot-keys" and row["id"] != run]
    compared = [f"/analyses/runs/{run}/compare/{other}" for other in others[:1]]
    for path in ("/analyses", "/analyses/hot-keys/new", f"/analyses/runs/{run}", *compared):
        page.goto(path)
        assert english(page) == [], path
        if "/runs/" in path:
            assert page.evaluate(GIVEN) == [], path
    page.goto("/analyses")
    runs_listed = page.get_by_role("table", name="Läufe")
    for header, first, field in (
        ("Analyse", "ascending", "title"),
        ("Ziel", "ascending", "target"),
        ("Gestartet", "descending", "created_at"),
    ):
        turn(page, runs_listed, header, first, field)


@pytest.mark.timeout(600)
def test_each_analysis_runs_from_the_page_of_a_topic_with_its_defaults(
    page: Page, instance: Instance, client: pulsar.Client
) -> None:
    letters = dead_letters(client, "persistent://public/default/page-DLQ")
    runs = {}
    for analysis in instance.rest("GET", "/api/v1/analyses")[1]:
        launched_from_the_topic(page, letters.topic, analysis["title"])
        page.get_by_role("button", name="Start").click()
        runs[analysis["name"]] = succeeded(page)
        expect(page.get_by_role("region", name="In short").locator("li").first).to_be_visible()
    assert len(runs) == 14

    page.goto(f"/analyses/runs/{runs['dead-letters']}")
    groups = page.get_by_role("region", name="Groups", exact=True)
    groups.get_by_role("row", name=re.compile("TimeoutError")).get_by_role("link", name="1").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("TimeoutError: no answer within # ms")
    expect(dialog).to_contain_text("JSON {id: number}")

    page.goto("/")
    choose_german(page)
    problems = []
    for analysis, run in runs.items():
        page.goto(f"/analyses/runs/{run}")
        expect(page.get_by_role("region", name="Kurz gesagt").locator("li").first).to_be_visible()
        texts = (*english(page), *page.evaluate(GIVEN))
        problems += [f"{analysis}: {text}" for text in texts if not CONTENT.search(text)]
    assert not problems, "\n".join(problems)


@pytest.mark.timeout(400)
def test_a_query_is_written_in_lines_and_its_plan_and_rows_in_pages_are_shown(
    page: Page, instance: Instance, axe_source: str
) -> None:
    launched_from_the_topic(page, KEYS, "SQL")
    query = page.locator("textarea[name=query]")
    query.fill("SELECT key, count(*) AS n\nFROM topic\nGROUP BY key\nORDER BY n DESC")
    query.press("Control+Enter")
    succeeded(page)
    expect(page.get_by_role("region", name="In short")).to_contain_text("It was run by DuckDB")
    expect(page.get_by_role("cell", name="hot", exact=True)).to_be_visible()
    plan = page.get_by_role("region", name="Plan")
    expect(plan).to_contain_text("HASH_GROUP_BY")
    expect(plan).to_contain_text("key")

    body = {
        "analysis": "sql",
        "parameters": {"topic": KEYS, "query": "SELECT key FROM topic", "rows": 250},
    }
    page.goto(f"/analyses/runs/{instance.rest('POST', '/api/v1/runs', body)[1]['id']}")
    succeeded(page)
    shown = page.get_by_role("region", name="Rows", exact=True)
    expect(shown).to_contain_text("250 of at least 251 rows")
    expect(shown).to_contain_text("Rows 1–100 of 250")
    shown.get_by_role("button", name="Next").click()
    expect(shown).to_contain_text("Rows 101–200 of 250")
    page.evaluate(axe_source)
    assert violations(page, "pages of rows", "main") == []


@pytest.mark.timeout(400)
def test_an_export_is_watched_stopped_and_resumed(
    page: Page, client: pulsar.Client, axe_source: str
) -> None:
    launched_from_the_topic(page, FOLLOWED, "Export as a table")
    page.locator("input[name=follow_s]").fill("600")
    page.locator("input[name=every_s]").fill("1")
    page.get_by_role("button", name="Start").click()
    page.wait_for_url(re.compile(r"/analyses/runs/[0-9a-f]{16}$"))
    expect(page.get_by_text("waiting for new messages")).to_be_visible(timeout=150_000)
    findings = page.get_by_role("region", name="In short")
    expect(findings).to_contain_text("10 rows added")
    publish(client, FOLLOWED, [(b"%d" % i, {}) for i in range(10, 25)])
    expect(findings).to_contain_text("25 rows added")
    figures = page.get_by_label("Summary of the result")
    for label in ("Bytes of the table", "Entries behind", "Last commit"):
        expect(figures).to_contain_text(label)
    positions = page.get_by_role("region", name="Positions")
    expect(positions.get_by_role("row")).to_have_count(2)
    expect(page.get_by_role("region", name="Rows of the table")).to_be_visible()
    expect(page.get_by_text("The export goes on.")).to_be_visible()
    page.evaluate(axe_source)
    assert violations(page, "export", "main") == []
    asked_at = time.monotonic()
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.get_by_text("cancelled", exact=True).first).to_be_visible()
    assert time.monotonic() - asked_at < CANCEL_S
    stopped = page.url
    publish(client, FOLLOWED, [(b"%d" % i, {}) for i in range(25, 30)])
    page.get_by_role("button", name="Resume", exact=True).click()
    page.wait_for_url(lambda url: "/analyses/runs/" in url and url != stopped)
    expect(findings).to_contain_text("5 rows added; the table", timeout=60_000)
    expect(findings).to_contain_text("has 30 rows")
    expect(findings).to_contain_text("continued where an earlier one ended")
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.get_by_text("cancelled", exact=True).first).to_be_visible()

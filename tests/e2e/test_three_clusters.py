"""The console of three clusters: the switch keeps the page, and a lost cluster is named while the others go on."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.instance import Instance
from tests.support.instances.three_clusters import CLUSTERS, path_of, three_clusters

FIRST, SECOND, THIRD = CLUSTERS


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    with three_clusters(tmp_path_factory.mktemp("clusters")) as instance:
        for cluster in CLUSTERS:
            namespace = f"public/only-{cluster}"
            assert instance.rest("PUT", f"{path_of(cluster)}/namespaces/{namespace}")[0] == 204
            topic = f"{path_of(cluster)}/persistent/{namespace}/of-{cluster}"
            assert instance.rest("PUT", topic)[0] == 204
        yield instance


@pytest.fixture(scope="module")
def page(browser: Browser, three: Instance) -> Iterator[Page]:
    context = browser.new_context(
        base_url=three.http, viewport={"width": 1280, "height": 900}, reduced_motion="reduce"
    )
    context.set_default_timeout(60_000)
    yield context.new_page()
    context.close()


def test_the_switch_keeps_the_page_and_shows_the_other_cluster(page: Page) -> None:
    page.goto(f"/c/{FIRST}/topics?q=of")
    switch = page.get_by_label("Cluster", exact=True)
    expect(switch).to_have_value(FIRST)
    expect(page.get_by_role("link", name=f"of-{FIRST}")).to_be_visible()
    switch.select_option(SECOND)
    page.wait_for_url(f"**/c/{SECOND}/topics?q=of")
    expect(page.get_by_role("link", name=f"of-{SECOND}")).to_be_visible()
    expect(page.get_by_text(f"of-{FIRST}")).to_have_count(0)


def test_a_page_outside_of_the_paths_of_a_cluster_keeps_it_in_its_address(page: Page) -> None:
    page.goto(f"/c/{SECOND}/topics")
    expect(page.get_by_label("Cluster", exact=True)).to_have_value(SECOND)
    main = page.get_by_role("navigation", name="Main")
    for name in ("Overview", "Connect", "Analyses"):
        main.get_by_role("link", name=name).click()
        page.wait_for_url(f"**?cluster={SECOND}")
    page.reload()
    switch = page.get_by_label("Cluster", exact=True)
    expect(switch).to_have_value(SECOND)
    main.get_by_role("link", name="Topics").click()
    page.wait_for_url(f"**/c/{SECOND}/topics")
    page.goto("/")
    expect(switch).to_have_value(FIRST)


def test_a_cluster_that_is_not_served_is_answered_with_those_that_are(page: Page) -> None:
    page.goto("/c/nowhere/topics?q=of")
    expect(page.get_by_role("heading", name="Cluster nowhere not found")).to_be_visible()
    page.get_by_role("link", name=f"This page in {THIRD}").click()
    page.wait_for_url(f"**/c/{THIRD}/topics?q=of")
    expect(page.get_by_role("link", name=f"of-{THIRD}")).to_be_visible()


def test_a_lost_cluster_is_named_and_the_others_go_on(page: Page, three: Instance) -> None:
    page.goto(f"/c/{FIRST}/brokers")
    expect(page.get_by_label("Cluster", exact=True)).to_have_value(FIRST)
    bookie = f"{SECOND}.bookie-1"
    three.control("stop", bookie)
    lost = page.locator("header").get_by_role("link", name=SECOND)
    expect(lost).to_be_visible()
    expect(page.get_by_text("All parts answer", exact=True).last).to_be_visible()
    assert three.rest("PUT", f"{path_of(THIRD)}/persistent/public/default/meanwhile")[0] == 204

    lost.click()
    page.wait_for_url(f"**/c/{SECOND}/brokers")
    expect(page.locator("[data-status-line]")).to_contain_text(bookie)
    three.control("start", bookie)
    expect(page.get_by_text("All parts answer", exact=True).last).to_be_visible()

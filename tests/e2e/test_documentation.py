"""The documentation in a browser: the console leads to it, its search works, and it loads nothing from elsewhere."""

import subprocess
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from gateway.settings import BASE_DIR, DOCUMENTATION_DIR
from tests.e2e.axe import violations
from tests.support.instance import Instance


@pytest.fixture(scope="session")
def site() -> None:
    """Build the documentation where no earlier stage has done it."""
    if not (DOCUMENTATION_DIR / "searchindex.js").exists():
        subprocess.run(["make", "docs"], cwd=BASE_DIR, check=True, timeout=300)


@pytest.mark.usefixtures("site")
def test_the_console_leads_to_the_documentation_and_its_search(
    page: Page, instance: Instance
) -> None:
    hosts: set[str] = set()
    page.on("request", lambda request: hosts.add(urlsplit(request.url).netloc))
    page.goto("/")
    page.goto(page.get_by_role("link", name="Documentation").get_attribute("href") or "none")
    expect(page.get_by_role("heading", name="Magnetar", level=1)).to_be_visible()
    page.get_by_role("textbox", name="Search").fill("fencing")
    page.keyboard.press("Enter")
    results = page.locator("#search-results li a")
    expect(results.first).to_be_visible()
    results.first.click()
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    colour = "getComputedStyle(document.body).backgroundColor"
    toggle = page.locator("button.theme-toggle:visible")
    colours = []
    for theme in ("light", "dark"):
        while page.evaluate("document.body.dataset.theme") != theme:
            toggle.first.click()
        colours.append(page.evaluate(colour))
    assert colours[0] != colours[1]
    page.reload()
    assert page.evaluate(colour) == colours[1], "the theme that was chosen is not kept"
    assert hosts == {urlsplit(instance.http).netloc}


@pytest.mark.usefixtures("site", "instance")
@pytest.mark.parametrize("path", ["start/first-message.html", "concepts/storage.html"])
def test_a_page_of_the_documentation_is_accessible(page: Page, axe_source: str, path: str) -> None:
    page.goto(f"/docs/{path}")
    page.evaluate(axe_source)
    assert violations(page, path, "body") == []


@pytest.mark.timeout(400)
@pytest.mark.usefixtures("site")
def test_every_page_fits_a_phone_and_shows_its_images(page: Page, instance: Instance) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    hosts: set[str] = set()
    page.on("request", lambda request: hosts.add(urlsplit(request.url).netloc))
    wrong = []
    for file in sorted(DOCUMENTATION_DIR.rglob("*.html")):
        path = file.relative_to(DOCUMENTATION_DIR)
        page.goto(f"/docs/{path}")
        wider = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        if pixels := page.evaluate(wider):
            wrong.append(f"{path} is {pixels} px too wide")
        absent = "[...document.images].filter(image => !image.naturalWidth).map(image => image.src)"
        wrong += [f"{path}: no image {source}" for source in page.evaluate(absent)]
    assert wrong == []
    assert hosts == {urlsplit(instance.http).netloc}

"""One real instance and one real browser for all browser tests."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    expect,
    sync_playwright,
)

from tests.support.instance import Instance, healthy_instance
from tests.support.life.life import Life, living_instance

PROVOKED = (r"(gateway|worker) ended \(signal 9\)",)
"""A test kills them, and asks that the console comes back."""
BROWSERS = ("chromium", "chromium-browser", "google-chrome")

# What a page shows in the end, however busy the machine is.
expect.set_options(timeout=60_000)


@pytest.fixture(scope="session")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    often = {"MAGNETAR_MESSAGE_EXPIRY_CHECK_INTERVAL_IN_MINUTES": "1"}
    folder = tmp_path_factory.mktemp("e2e")
    with healthy_instance(folder, PROVOKED, **often) as made:
        yield made


@pytest.fixture(scope="session")
def life(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Life]:
    """An instance that is used: what pages show is to be tested on this one."""
    with living_instance(tmp_path_factory.mktemp("life")) as made:
        yield made


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium on this machine: apt install chromium")
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(
            executable_path=found,
            args=[
                "--no-sandbox",
                "--disable-gpu",
                "--disable-background-networking",
                "--no-first-run",
            ],
        )
        yield made
        made.close()


@pytest.fixture
def context(browser: Browser, instance: Instance) -> Iterator[BrowserContext]:
    made = browser.new_context(base_url=instance.http, viewport={"width": 1440, "height": 900})
    yield made
    made.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """A page that fails its test on an uncaught error or a console error of our own scripts."""
    made = context.new_page()
    problems: list[str] = []
    made.on("pageerror", lambda error: problems.append(f"uncaught: {error}"))

    def heard(line: ConsoleMessage) -> None:
        # Chromium writes refused calls there, too: those are for the page to show
        of_api = line.text.startswith("Failed to load") and "/api/v1/" in line.location["url"]
        if line.type == "error" and not of_api:
            problems.append(f"console: {line.text}")

    made.on("console", heard)
    yield made
    assert problems == []


@pytest.fixture(scope="session")
def axe_source() -> str:
    path = Path(__file__).parents[2] / "frontend" / "node_modules" / "axe-core" / "axe.min.js"
    return path.read_text()

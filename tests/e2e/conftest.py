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
from tests.support.instances.secure import SecureInstance, secure_instance
from tests.support.life.life import Life, living_instance

PROVOKED = (r"(gateway|worker) ended \(signal 9\)",)
"""Log lines of processes that a test kills to check that the console recovers."""
BROWSERS = ("chromium", "chromium-browser", "google-chrome")

# A busy machine delays what a page shows in the end; it must not fail a test.
expect.set_options(timeout=60_000)


@pytest.fixture(scope="session")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    often = {"MAGNETAR_MESSAGE_EXPIRY_CHECK_INTERVAL_IN_MINUTES": "1"}
    folder = tmp_path_factory.mktemp("e2e")
    with healthy_instance(folder, PROVOKED, **often) as healthy:
        yield healthy


@pytest.fixture(scope="session")
def life(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Life]:
    """An instance with traffic, for tests of what pages show."""
    with living_instance(tmp_path_factory.mktemp("life")) as lively:
        yield lively


@pytest.fixture(scope="session")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureInstance]:
    """An instance whose people sign in, for ``SECURE_FILES``; the first of them creates the first person."""
    with secure_instance(tmp_path_factory.mktemp("secure")) as running:
        yield running


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    executable = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if executable is None:
        pytest.skip("no Chromium on this machine: apt install chromium")
    with sync_playwright() as playwright:
        browser_process = playwright.chromium.launch(
            executable_path=executable,
            args=[
                "--no-sandbox",
                "--disable-gpu",
                "--disable-background-networking",
                "--no-first-run",
            ],
        )
        yield browser_process
        browser_process.close()


@pytest.fixture
def context(browser: Browser, instance: Instance) -> Iterator[BrowserContext]:
    new_context = browser.new_context(
        base_url=instance.http, viewport={"width": 1440, "height": 900}
    )
    yield new_context
    new_context.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """A page that fails its test on an uncaught error or a console error of our own scripts."""
    new_page = context.new_page()
    problems: list[str] = []
    new_page.on("pageerror", lambda error: problems.append(f"uncaught: {error}"))

    def record(line: ConsoleMessage) -> None:
        # Chromium logs refused calls as errors, too; the page has to show those itself.
        of_api = line.text.startswith("Failed to load") and "/api/v1/" in line.location["url"]
        if line.type == "error" and not of_api:
            problems.append(f"console: {line.text}")

    new_page.on("console", record)
    yield new_page
    assert problems == []


@pytest.fixture(scope="session")
def axe_source() -> str:
    path = Path(__file__).parents[2] / "frontend" / "node_modules" / "axe-core" / "axe.min.js"
    return path.read_text()

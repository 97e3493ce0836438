"""Every page and dialog of the console over the scripted life, at three widths in both themes, as files.

``python -m tests.support.life.screenshots --out DIR``; ``--url`` names an instance whose life runs already.
"""

import argparse
import shutil
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from playwright.sync_api import Browser, Error, Page, sync_playwright

from tests.support.life.cast import CLUSTER, STORIES, small_topics
from tests.support.life.described import DESCRIBED
from tests.support.life.life import console_path, living_instance

WIDTHS = {375: 812, 1280: 800, 1920: 1080}
SETTLE_MS = 1_500
PATIENCE_MS = 30_000
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
Step = Callable[[Page], None]


def of(local: str, tab: str = "overview") -> str:
    """Return the address of the page of the topic with this local name."""
    stories = [*STORIES, *small_topics()]
    return console_path(next(s for s in stories if s.topic.split("/", 4)[4] == local), tab)


PAGES = {
    "overview": "/",
    "wall": "/?wall=1",
    "connect": "/connect",
    "topics": f"/c/{CLUSTER}/topics",
    "topics-filtered": f"/c/{CLUSTER}/topics?q=shop%20orders",
    "topics-none": f"/c/{CLUSTER}/topics?q=no-such-topic",
    "topic": of("invoices"),
    "topic-subscriptions": of("invoices", "subscriptions"),
    "topic-stuck": of("payments", "subscriptions"),
    "topic-hot-key": of("readings", "subscriptions"),
    "topic-partitioned": of("parts"),
    "topic-partitioned-subscriptions": of("parts", "subscriptions"),
    "topic-partitions": of("parts", "partitions"),
    "topic-schema": console_path(DESCRIBED, "schema"),
    "topic-schema-compared": f"{console_path(DESCRIBED, 'schema')}?version=2&with=0",
    "topic-no-schema": of("invoices", "schema"),
    "topic-non-persistent": of("ticks"),
    "topic-at-rest": of("at-rest"),
    "topic-manage": of("invoices", "manage"),
    "topic-policies": of("invoices", "policies"),
    "topic-partitioned-manage": of("parts", "manage"),
    "topic-hostile": of("<img src=x onerror=alert(1)>", "subscriptions"),
    "topic-long": of("very-long-" + "0123456789" * 19),
    "topic-missing": f"/c/{CLUSTER}/t/shop/orders/never-made/overview",
    "subscriptions": f"/c/{CLUSTER}/subscriptions",
    "transactions-off": f"/c/{CLUSTER}/transactions",
    "functions": f"/c/{CLUSTER}/functions",
    "function-new": f"/c/{CLUSTER}/functions/new?component=sink&connector=postgres",
    "changes": f"/c/{CLUSTER}/changes",
    "clients": f"/c/{CLUSTER}/clients",
    "dead-letters": f"/c/{CLUSTER}/dead-letters",
    "copies": f"/c/{CLUSTER}/copies",
    "tenants": f"/c/{CLUSTER}/tenants",
    "tenant": f"/c/{CLUSTER}/tenants/shop",
    "namespace": f"/c/{CLUSTER}/tenants/shop/orders",
    "brokers": f"/c/{CLUSTER}/brokers",
    "bundles": f"/c/{CLUSTER}/bundles",
    "bookies": f"/c/{CLUSTER}/bookies",
    "settings": f"/c/{CLUSTER}/settings",
    "analyses": "/analyses",
    "analysis": "/analyses/topic-profile/new",
    "nowhere": f"/c/{CLUSTER}/no-such-page",
}


def press(name: str) -> Step:
    return lambda page: page.get_by_role("button", name=name).first.click()


def enter(field: str, text: str) -> Step:
    return lambda page: page.get_by_role("dialog").get_by_role("textbox", name=field).fill(text)


def both(first: Step, second: Step) -> Step:
    def step(page: Page) -> None:
        first(page)
        second(page)

    return step


def commands(page: Page) -> None:
    """Show the commands that do the same as a dialog."""
    page.get_by_role("dialog").get_by_text("As a command").click()


DIALOGS: dict[str, tuple[str, Step]] = {
    "palette": ("/", lambda page: page.keyboard.press("Control+k")),
    "skip-all": (of("invoices", "subscriptions"), press("Skip all…")),
    "skip": (of("payments", "subscriptions"), press("Skip…")),
    "reset": (of("invoices", "subscriptions"), press("Reset…")),
    "delete-subscription": (of("invoices", "subscriptions"), press("Delete…")),
    "delete-subscription-in-use": (of("checkout", "subscriptions"), press("Delete…")),
    "disconnect-consumer": (of("checkout", "subscriptions"), press("Disconnect")),
    "new-topic": (f"/c/{CLUSTER}/topics?tenant=shop&namespace=orders", press("New topic…")),
    "delete-topic": (of("invoices", "manage"), press("Delete…")),
    "delete-topic-in-use": (of("checkout", "manage"), press("Delete…")),
    "terminate-topic": (of("checkout", "manage"), press("Terminate…")),
    "unload-topic": (of("checkout", "manage"), press("Unload…")),
    "more-partitions": (of("parts", "manage"), press("More partitions…")),
    "topic-properties": (of("invoices", "manage"), press("Change properties…")),
    "topic-commands": (of("invoices", "manage"), both(press("Delete…"), commands)),
    "change-all": (f"/c/{CLUSTER}/topics", press("Change all…")),
    "delete-schema": (console_path(DESCRIBED, "schema"), press("Delete…")),
    "new-tenant": (f"/c/{CLUSTER}/tenants", press("New tenant…")),
    "unload-bundle": (f"/c/{CLUSTER}/bundles?q=shop/orders", press("Change shop/orders")),
    "transfer-bundle": (
        f"/c/{CLUSTER}/bundles?q=shop/orders",
        both(
            press("Change shop/orders"),
            lambda page: page.get_by_label("What to do").select_option("transfer") and None,
        ),
    ),
    "split-bundle": (
        f"/c/{CLUSTER}/bundles?q=shop/orders",
        both(
            press("Change shop/orders"),
            lambda page: page.get_by_label("What to do").select_option("split") and None,
        ),
    ),
    "unload-namespace": (f"/c/{CLUSTER}/tenants/shop/orders", press("Unload…")),
    "unload-broker": (f"/c/{CLUSTER}/brokers", both(press("Unload…"), commands)),
    "setting": (
        f"/c/{CLUSTER}/settings",
        both(press("Set… maxTopicsPerNamespace"), enter("Value", "900")),
    ),
    "setting-refused": (
        f"/c/{CLUSTER}/settings",
        both(press("Set… maxTopicsPerNamespace"), enter("Value", "many")),
    ),
    "rack": (f"/c/{CLUSTER}/bookies", both(press("Rack…"), enter("Rack", "/rack-1"))),
    "bookie-loss": (f"/c/{CLUSTER}/bookies", press("If it died…")),
    "policy": (f"/c/{CLUSTER}/tenants/shop/orders", press("Set…")),
    "policy-that-takes": (
        of("invoices", "policies"),
        both(
            both(press("Set… Message TTL"), enter("Message TTL", "1")),
            lambda page: page.get_by_role("button", name="Save and lose").wait_for(),
        ),
    ),
    "namespace-properties": (f"/c/{CLUSTER}/tenants/shop/orders", press("Change properties…")),
}


def shoot(browser: Browser, url: str, out: Path) -> list[str]:
    """Take all screenshots into ``out``; return a line for each page or dialog that could not be opened."""
    failed = []
    for width, height in WIDTHS.items():
        for scheme in ("light", "dark"):
            context = browser.new_context(
                base_url=url,
                viewport={"width": width, "height": height},
                color_scheme=scheme,  # type: ignore[arg-type]
            )
            context.set_default_timeout(PATIENCE_MS)
            page = context.new_page()
            steps = {name: (path, None) for name, path in PAGES.items()} | DIALOGS
            for name, (path, step) in steps.items():
                page.goto(path)
                page.wait_for_timeout(SETTLE_MS)
                try:
                    if step is not None:
                        step(page)
                        page.wait_for_timeout(SETTLE_MS)
                except Error as error:
                    failed.append(f"{name} at {width} px: {error.message.splitlines()[0]}")
                page.screenshot(path=out / f"{name}-{width}-{scheme}.png")
            context.close()
    return failed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--url", help="of a console; without it an instance is started")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    executable = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    with ExitStack() as stack:
        url = args.url
        if url is None:
            made = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="life-")))
            url = stack.enter_context(living_instance(made)).instance.http
        playwright = stack.enter_context(sync_playwright())
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        for problem in shoot(browser, url, args.out):
            print(problem)
        browser.close()


if __name__ == "__main__":
    main()

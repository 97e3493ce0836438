"""Budgets of a page's first load: requests and bytes received, as the browser's network layer counts them."""

import pytest
from playwright.sync_api import Page, expect

from tests.support.instance import Instance

ROUTES = (
    "/",
    "/c/standalone/topics",
    "/c/standalone/t/public/default/wire/overview",
    "/c/standalone/t/public/default/wire/subscriptions",
    "/c/standalone/tenants",
    "/c/standalone/tenants/public",
    "/c/standalone/tenants/public/default",
    "/analyses",
    "/analyses/topic-profile/new",
)
SCRIPTS_KB_MAX = 266
SHEETS_KB_MAX = 21
REQUESTS_MAX = 15
"""Bound of the requests for the document, its files and the API, with the live socket. One draws the frame of the page
before the program is there."""


class Load:
    """One load of ``route`` without the browser's cache. Sizes are bytes received, headers included, by the kind of
    resource."""

    def __init__(self, page: Page, route: str) -> None:
        self.requests: list[str] = []
        self.sizes: dict[str, int] = {}
        kinds: dict[str, str] = {}
        network = page.context.new_cdp_session(page)

        def sent(event: dict[str, str]) -> None:
            self.requests.append(f"{event.get('type', 'WebSocket')} {_url(event)}")
            kinds[event["requestId"]] = event.get("type", "WebSocket")

        def received(event: dict[str, str]) -> None:
            kind = kinds[event["requestId"]]
            self.sizes[kind] = self.sizes.get(kind, 0) + int(event["encodedDataLength"])

        network.on("Network.requestWillBeSent", sent)
        network.on("Network.webSocketCreated", sent)
        network.on("Network.loadingFinished", received)
        network.send("Network.enable")
        network.send("Network.setCacheDisabled", {"cacheDisabled": True})
        page.goto(route)
        expect(page.get_by_role("heading", level=1)).to_be_visible(timeout=30_000)
        page.wait_for_load_state("networkidle")
        network.detach()


def _url(event: dict[str, object]) -> str:
    request = event.get("request")
    return str(request["url"] if isinstance(request, dict) else event["url"])


@pytest.mark.timeout(300)
@pytest.mark.parametrize("route", ROUTES)
def test_a_first_load_stays_within_its_budgets(page: Page, instance: Instance, route: str) -> None:
    topic = "/admin/v2/persistent/public/default/wire"
    assert instance.rest("PUT", topic)[0] in (204, 409)
    assert instance.rest("PUT", f"{topic}/subscription/s")[0] in (204, 409)
    load = Load(page, route)
    traffic = "\n".join([*load.requests, str(load.sizes)])
    print(traffic)
    assert load.sizes["Script"] <= SCRIPTS_KB_MAX * 1024, traffic
    assert load.sizes["Stylesheet"] <= SHEETS_KB_MAX * 1024, traffic
    assert len(load.requests) <= REQUESTS_MAX, traffic

"""No axe violations: every route, light and dark, three widths."""

import pytest
from playwright.sync_api import Browser, expect

from tests.support.instance import Instance

ROUTES = (
    "/",
    "/c/standalone/topics",
    "/c/standalone/t/public/default/axe/overview",
    "/c/standalone/t/public/default/axe/subscriptions",
    "/c/standalone/tenants",
    "/c/standalone/tenants/public",
    "/c/standalone/tenants/public/default",
    "/connect",
    "/analyses",
    "/analyses/topic-profile/new",
    "/analyses/no-such-analysis/new",
)
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]


@pytest.mark.timeout(200)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_axe_violations(
    browser: Browser, instance: Instance, axe_source: str, scheme: str
) -> None:
    topic = "/admin/v2/persistent/public/default/axe"
    assert instance.rest("PUT", topic)[0] in (204, 409)
    assert instance.rest("PUT", f"{topic}/subscription/s")[0] in (204, 409)
    found = []
    for width in (1440, 768, 360):
        context = browser.new_context(
            base_url=instance.http,
            viewport={"width": width, "height": 900},
            color_scheme=scheme,  # type: ignore[arg-type]
            bypass_csp=True,  # for axe's own script
        )
        page = context.new_page()
        for route in ROUTES:
            page.goto(route)
            expect(page.get_by_role("main")).to_be_visible()
            expect(page.get_by_role("heading", level=1)).to_be_visible()
            page.wait_for_timeout(300)
            page.evaluate(axe_source)
            result = page.evaluate(
                "(tags) => axe.run(document, {runOnly: {type: 'tag', values: tags}})", RULES
            )
            for violation in result["violations"]:
                nodes = [node["html"][:160] for node in violation["nodes"][:3]]
                found.append(f"{route} {width}px {violation['id']}: {nodes}")
            overflow = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
            if overflow > 0:
                found.append(f"{route} {width}px scrolls sideways by {overflow}px")
        context.close()
    assert not found, "\n".join(found)

"""Tenants and namespaces, administered in a real browser on a real instance."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Page, expect

from tests.support.instance import Instance

NAMESPACE = "/admin/v2/namespaces/acme/orders"


def policy(page: Page, title: str):  # type: ignore[no-untyped-def]
    return page.get_by_role("listitem", name=title, exact=True)


def preview(page: Page):  # type: ignore[no-untyped-def]
    return page.get_by_role("dialog").locator("[data-preview]")


@contextmanager
def refused(page: Page, status: int) -> Iterator[None]:
    """Check that a call made while the context is open is answered with ``status``."""
    with page.expect_response(lambda answer: answer.status == status):
        yield


@pytest.mark.timeout(200)
def test_a_tenant_with_a_namespace_is_created_set_up_and_deleted(
    page: Page, instance: Instance
) -> None:
    page.goto("/")
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Tenants").click()
    expect(page.get_by_role("heading", name="Tenants", level=1)).to_be_visible()
    expect(page.locator("nav [aria-current=page]")).to_have_text("Tenants")

    page.get_by_role("button", name="New tenant…").click()
    page.get_by_label("Name", exact=True).fill("acme")
    page.get_by_label("Admin roles").fill("ops")
    page.get_by_role("button", name="Create tenant").click()
    expect(page.get_by_role("heading", name="acme", level=1)).to_be_visible()
    expect(page.get_by_text("Administered by ops")).to_be_visible()

    page.get_by_role("button", name="New namespace…").click()
    page.get_by_label("Name", exact=True).fill("bad name")
    with refused(page, 412):
        page.keyboard.press("Enter")
        expect(page.get_by_text("Namespace name is not valid")).to_be_visible()
    page.get_by_label("Name", exact=True).fill("orders")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="orders", level=1)).to_be_visible()

    # The namespace's own TTL instead of the brokers'.
    ttl = policy(page, "Message TTL")
    expect(ttl.get_by_text("broker", exact=True)).to_be_visible()
    ttl.get_by_role("button", name="Set…").click()
    page.get_by_role("textbox", name="Message TTL").fill("600")
    expect(preview(page)).to_contain_text(
        "From never (0), set by the brokers, to 10 min (600 seconds), set by this namespace,"
        " for future topics that set none of their own; none is stored now."
    )
    expect(preview(page)).to_contain_text("It applies to no stored topic.")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("dialog").get_by_role("status")).to_have_text(
        re.compile("Message TTL is 10 min")
    )
    page.get_by_role("button", name="Close", exact=True).last.click()
    expect(ttl.get_by_text("namespace", exact=True)).to_be_visible()
    expect(ttl).to_contain_text("10 min (600 seconds)")
    assert instance.rest("GET", f"{NAMESPACE}/messageTTL") == (200, 600)

    # Retention: a refusal is shown at the field, and a conflicting change before it is overwritten.
    policy(page, "Retention").get_by_role("button", name="Set…").click()
    page.get_by_role("textbox", name="Retention time").fill("60")
    expect(page.get_by_text("a zero limit needs the other")).to_be_visible()
    page.get_by_role("textbox", name="Retention size").fill("1024")
    expect(page.get_by_role("button", name="Save")).to_be_enabled()
    other = {"retentionTimeInMinutes": 5, "retentionSizeInMB": 5}
    assert instance.rest("POST", f"{NAMESPACE}/retention", other)[0] == 204
    with refused(page, 409):
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_role("alert")).to_contain_text("Another user changed it meanwhile")
    expect(page.get_by_role("alert")).to_contain_text("retention time 5 min")
    expect(preview(page)).to_contain_text("From retention time 5 min, retention size 5 MiB, set by")
    assert instance.rest("GET", f"{NAMESPACE}/retention") == (200, other)
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("dialog").get_by_role("status")).to_contain_text("1 GiB (1,024 MiB)")
    page.keyboard.press("Escape")
    expect(policy(page, "Retention").get_by_text("namespace", exact=True)).to_be_visible()

    # Removed, so that the brokers' TTL applies again.
    ttl.get_by_role("button", name="Remove…").click()
    expect(preview(page)).to_contain_text("to never (0), set by the brokers,")
    page.get_by_role("button", name="Remove", exact=True).click()
    page.get_by_role("button", name="Close", exact=True).last.click()
    expect(ttl.get_by_text("broker", exact=True)).to_be_visible()

    # The dialog lists what prevents the deletion before anything is tried.
    topic = "/admin/v2/persistent/acme/orders/in-the-way"
    assert instance.rest("PUT", topic)[0] == 204
    page.get_by_role("link", name="acme").click()
    page.get_by_role("button", name="Delete…", exact=True).click()
    expect(page.get_by_role("dialog")).to_contain_text("1 namespace exists in it")
    expect(page.get_by_role("button", name="Delete tenant")).to_have_count(0)
    page.keyboard.press("Escape")
    page.get_by_role("link", name="orders", exact=True).click()
    page.get_by_role("button", name="Delete…", exact=True).click()
    expect(page.get_by_role("dialog")).to_contain_text("persistent://acme/orders/in-the-way")
    page.keyboard.press("Escape")
    assert instance.rest("DELETE", topic)[0] == 204

    page.get_by_role("button", name="Delete…", exact=True).click()
    expect(page.get_by_role("button", name="Delete namespace")).to_be_disabled()
    page.get_by_label("Type orders to delete it").fill("orders")
    page.keyboard.press("Enter")
    expect(page.get_by_text("No namespace yet")).to_be_visible()
    page.get_by_role("button", name="Delete…", exact=True).click()
    page.get_by_label("Type acme to delete it").fill("acme")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Tenants", level=1)).to_be_visible()
    expect(page.get_by_role("link", name="public", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name="acme", exact=True)).to_have_count(0)
    assert instance.rest("GET", "/admin/v2/tenants")[1] == ["public", "pulsar"]

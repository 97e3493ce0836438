"""Sign-in by a provider of OpenID Connect, in the browser, and what a person reads while something is away."""

import contextlib
import sqlite3
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.axe import violations
from tests.e2e.test_sign_in import LOOKS, TOPICS, corner, sign_in, topic, visitor
from tests.support.instances.secure import PROVIDER, SecureInstance

BOB = "bob-of-globex"
AWAY = f"{PROVIDER} does not answer. Try again later, or sign in another way."


@pytest.fixture(scope="module")
def tenants(secure: SecureInstance) -> None:
    """The tenants to which groups of the provider give roles, with a topic each, and a person with a password."""
    known = secure.call("GET", "/admin/v2/tenants")
    for tenant in ("acme", "globex"):
        if tenant not in known:
            body = {"adminRoles": [f"{tenant}-admin"], "allowedClusters": ["standalone"]}
            secure.call("PUT", f"/admin/v2/tenants/{tenant}", body)
            secure.call("PUT", f"/admin/v2/namespaces/{tenant}/shop")
            secure.call("PUT", f"/admin/v2/persistent/{tenant}/shop/{tenant}-orders")
    secure.add_person(BOB, "globex-admin:full")
    secure.provider.person |= {"groups": ["billing", "ops"]}


@pytest.fixture
def page(browser: Browser, secure: SecureInstance, tenants: None) -> Iterator[Page]:
    with visitor(browser, secure, bypass_csp=True) as context:
        yield context.new_page()


def by_provider(page: Page) -> None:
    page.get_by_role("link", name=f"Sign in with {PROVIDER}").click()


def test_a_person_of_a_provider_signs_in_switches_its_role_and_signs_out_there_too(
    page: Page, secure: SecureInstance
) -> None:
    page.goto(f"{TOPICS}?q=orders")
    by_provider(page)
    # The first rule decides, not the first group.
    expect(corner(page, "Ann")).to_contain_text("acting as acme-admin (operate)")
    assert page.url == f"{secure.url}{TOPICS}?q=orders"
    expect(topic(page, "acme")).to_be_visible()
    expect(topic(page, "globex")).to_have_count(0)
    corner(page).click()
    page.get_by_role("button", name="globex-admin").click()
    expect(corner(page)).to_contain_text("acting as globex-admin (full)")
    expect(topic(page, "globex")).to_be_visible()
    expect(topic(page, "acme")).to_have_count(0)
    corner(page).click()
    page.get_by_role("link", name="Sessions, password and tokens").click()
    expect(page.get_by_text("This session")).to_be_visible()
    expect(page.get_by_role("button", name="Change password…")).to_have_count(0)
    corner(page).click()
    page.get_by_role("button", name="Sign out", exact=True).click()
    expect(page.get_by_role("heading", name="Sign in to Magnetar")).to_be_visible()
    assert secure.provider.asked[-1] == "/end"


def test_a_provider_that_ends_during_a_sign_in_is_named_and_serves_when_it_is_back(
    page: Page, secure: SecureInstance, axe_source: str
) -> None:
    secure.provider.dies = "/token"
    page.goto(TOPICS)
    by_provider(page)
    expect(page.get_by_text(AWAY)).to_be_visible()
    page.evaluate(axe_source)
    assert violations(page, "failed sign-in", "html", LOOKS) == []
    page.get_by_role("link", name="Back to the sign-in page").click()
    sign_in(page, BOB)
    expect(corner(page, BOB)).to_be_visible()
    corner(page).click()
    page.get_by_role("button", name="Sign out", exact=True).click()
    secure.provider.dies = ""
    secure.provider.start()
    by_provider(page)
    expect(corner(page, "Ann")).to_be_visible()


def test_a_locked_database_is_named_and_the_sign_in_succeeds_afterwards(
    page: Page, secure: SecureInstance
) -> None:
    page.goto(TOPICS)
    path = secure.instance.data_dir / "console.sqlite3"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("BEGIN IMMEDIATE")
        sign_in(page, BOB)
        expect(page.get_by_role("alert")).to_contain_text("The console's database does not answer")
        database.execute("ROLLBACK")
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(corner(page, BOB)).to_be_visible()

"""Sign-in, the acting role and the end of a session, in the browser, with people who see different tenants."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.e2e.axe import ALL_RULES, COLOURS, violations
from tests.e2e.german import choose_german, english
from tests.e2e.lists.test_sorted_lists import turn
from tests.support.instances.secure import FAILURES_MAX, PASSWORD, SecureInstance

TOPICS = "/c/standalone/topics"
ROOT = "root"
TENANTS = ("acme", "globex")
LOOKS = [("light", 360, ALL_RULES), ("dark", 1440, COLOURS)]
ALICE, BOB, DAVE = "alice", "bob", "dave"


@pytest.fixture(scope="module")
def people(secure: SecureInstance) -> None:
    """Two tenants with a topic each, and an admin for each; Alice may act as Bob's role, too, and look only."""
    for tenant in TENANTS:
        body = {"adminRoles": [f"{tenant}-admin"], "allowedClusters": ["standalone"]}
        secure.call("PUT", f"/admin/v2/tenants/{tenant}", body)
        secure.call("PUT", f"/admin/v2/namespaces/{tenant}/shop")
        secure.call("PUT", f"/admin/v2/persistent/{tenant}/shop/{tenant}-orders")
    # A test that runs alone has no first person, whom the test of the set-up creates.
    if ROOT not in {row["name"] for row in secure.call("GET", "/api/v1/people")["rows"]}:
        secure.add_person(ROOT, "superuser:full")
    secure.add_person(ALICE, "acme-admin:full", "globex-admin:read")
    for name in (BOB, DAVE):
        secure.add_person(name, "globex-admin:full")


@contextmanager
def visitor(browser: Browser, secure: SecureInstance, **options: Any) -> Iterator[BrowserContext]:
    """Yield the browser of another person; its pages must have no uncaught errors."""
    context = browser.new_context(
        base_url=secure.url,
        ignore_https_errors=True,
        viewport={"width": 1440, "height": 900},
        **options,
    )
    problems: list[str] = []
    context.on("weberror", lambda error: problems.append(str(error.error)))
    yield context
    context.close()
    assert not problems, "\n".join(problems)


@pytest.fixture
def page(browser: Browser, secure: SecureInstance) -> Iterator[Page]:
    with visitor(browser, secure) as context:
        yield context.new_page()


def sign_in(page: Page, name: str, password: str = PASSWORD) -> None:
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("Password", exact=True).fill(password)
    page.get_by_role("button", name="Sign in", exact=True).click()


def corner(page: Page, name: str = ""):  # type: ignore[no-untyped-def]
    return page.get_by_role("button", name=f"Account of {name}")


def topic(page: Page, tenant: str):  # type: ignore[no-untyped-def]
    return page.get_by_role("link", name=f"{tenant}-orders")


def test_the_page_of_the_set_up_has_no_axe_violations(
    browser: Browser, secure: SecureInstance, axe_source: str
) -> None:
    with visitor(browser, secure, bypass_csp=True) as context:
        page = context.new_page()
        page.goto("/")
        expect(page.get_by_role("heading", name="Set up Magnetar")).to_be_visible()
        page.evaluate(axe_source)
        assert violations(page, "set-up", "html", LOOKS) == []


def test_the_first_person_is_created_with_the_code_of_the_gateway(
    page: Page, secure: SecureInstance
) -> None:
    page.goto(f"{TOPICS}?q=orders")
    expect(page.get_by_role("heading", name="Set up Magnetar")).to_be_visible()
    page.get_by_label("Name", exact=True).fill(ROOT)
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_label("One-time code").fill("AAAA-BBBB-CCCC-DDDD")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("The code is wrong")
    page.get_by_label("One-time code").fill(secure.set_up_code)
    page.keyboard.press("Enter")
    expect(corner(page, ROOT)).to_contain_text("acting as superuser (full)")
    expect(page.get_by_role("heading", name="Topics", level=1)).to_be_visible()
    assert page.url == f"{secure.url}{TOPICS}?q=orders"


@pytest.mark.usefixtures("people")
def test_a_sign_in_returns_to_the_page_that_was_asked_for(
    page: Page, secure: SecureInstance
) -> None:
    page.goto(f"{TOPICS}?q=acme")
    expect(page.get_by_role("heading", name="Sign in to Magnetar")).to_be_visible()
    sign_in(page, ALICE, "wrong")
    expect(page.get_by_role("alert")).to_have_text("Name or password is wrong.")
    expect(page.get_by_label("Password", exact=True)).to_be_focused()
    sign_in(page, ALICE)
    expect(topic(page, "acme")).to_be_visible()
    assert page.url == f"{secure.url}{TOPICS}?q=acme"

    page.goto("/sign-in?next=//example.org/")
    expect(page.get_by_role("heading", name="Overview", level=1)).to_be_visible()
    assert page.url == f"{secure.url}/"


@pytest.mark.usefixtures("people")
def test_too_many_failures_show_when_the_next_attempt_counts(page: Page) -> None:
    page.goto("/")
    for _ in range(FAILURES_MAX):
        # The form clears the password of the attempt before, and would clear one that is filled in meanwhile.
        expect(page.get_by_label("Password", exact=True)).to_have_value("")
        with page.expect_response("**/api/v1/session/sign-in"):
            sign_in(page, "mallory", "guess")
    expect(page.get_by_role("alert")).to_have_text(
        re.compile(r"Too many attempts\. Try again at \d\d:\d\d:\d\d\.")
    )
    expect(page.get_by_role("button", name=re.compile(r"Wait \d+ min"))).to_be_disabled()


@pytest.mark.usefixtures("people")
def test_a_one_time_password_is_replaced_at_the_first_sign_in(
    page: Page, secure: SecureInstance
) -> None:
    body = {"name": "carol", "roles": [{"role": "acme-admin", "level": "read"}]}
    made = secure.call("POST", "/api/v1/people", body)
    page.goto(TOPICS)
    sign_in(page, "carol", made["one_time_password"])
    expect(page.get_by_role("status")).to_contain_text("Choose your own")
    page.get_by_label("New password", exact=True).fill("short")
    page.keyboard.press("Enter")
    expect(page.get_by_text("This password is too short")).to_be_visible()
    page.get_by_label("New password", exact=True).fill(PASSWORD)
    page.keyboard.press("Enter")
    expect(corner(page, "carol")).to_contain_text("acting as acme-admin (read)")


@pytest.mark.usefixtures("people")
def test_the_headers_of_people_and_tokens_sort_in_both_directions_by_keyboard(
    page: Page, secure: SecureInstance
) -> None:
    for name in ("sorted-a", "sorted-b"):
        body = {"name": name, "role": "acme-admin", "level": "read", "expires_in_s": None}
        secure.call("POST", "/api/v1/tokens", body)
    page.goto("/people")
    sign_in(page, ROOT)
    people_listed = page.get_by_role("table", name="People")
    for header, first, field in (
        ("Name", "descending", "name"),
        ("Full name", "ascending", "display_name"),
        ("State", "descending", "active"),
        ("Signs in by", "ascending", "provider"),
        ("Last sign-in", "descending", "last_sign_in_at"),
        ("Sessions", "descending", "sessions"),
    ):
        turn(page, people_listed, header, first, field)
    page.goto("/c/standalone/roles/acme-admin")
    tokens = page.get_by_role("table", name="Tokens")
    names = tokens.locator("tbody tr").filter(has_text="sorted-")
    for header, first in (("Level", "ascending"), ("Created", "descending"), ("Name", "ascending")):
        column = tokens.get_by_role("columnheader", name=header, exact=True)
        orders = ["ascending", "descending"]
        for order in orders if first == "ascending" else orders[::-1]:
            column.get_by_role("button").press("Enter")
            expect(column).to_have_attribute("aria-sort", order)
    expect(names.first).to_contain_text("sorted-b")


@pytest.mark.usefixtures("people")
def test_another_acting_role_shows_what_that_role_sees(page: Page) -> None:
    page.goto(TOPICS)
    sign_in(page, ALICE)
    expect(topic(page, "acme")).to_be_visible()
    corner(page).click()
    page.get_by_role("button", name="globex-admin").click()
    expect(corner(page)).to_contain_text("acting as globex-admin (read)")
    expect(topic(page, "globex")).to_be_visible()
    expect(topic(page, "acme")).to_have_count(0)
    expect(page.get_by_role("link", name="People")).to_have_count(0)


@pytest.mark.usefixtures("people")
def test_a_superuser_views_the_console_as_a_role(page: Page) -> None:
    page.goto(TOPICS)
    sign_in(page, ROOT)
    expect(topic(page, "acme")).to_be_visible()
    expect(topic(page, "globex")).to_be_visible()
    corner(page).click()
    page.get_by_role("button", name="View as a role…").click()
    page.get_by_role("textbox", name="Role").fill("acme-admin")
    page.keyboard.press("Enter")
    banner = page.get_by_role("note")
    expect(banner).to_contain_text("Viewing as acme-admin. Nothing can be changed.")
    expect(topic(page, "acme")).to_be_visible()
    expect(topic(page, "globex")).to_have_count(0)
    banner.get_by_role("button", name="Stop").click()
    expect(topic(page, "globex")).to_be_visible()
    expect(banner).to_have_count(0)


@pytest.mark.usefixtures("people")
def test_a_session_that_ends_elsewhere_keeps_what_was_typed(
    page: Page, secure: SecureInstance
) -> None:
    page.goto("/c/standalone/tenants")
    sign_in(page, ROOT)
    page.get_by_role("button", name="New tenant…").click()
    page.get_by_label("Name", exact=True).fill("initech")
    secure.call("DELETE", f"/api/v1/people/{ROOT}/sessions")
    again = page.get_by_role("dialog", name="Your session has ended")
    expect(again).to_be_visible()
    again.get_by_label("Password", exact=True).fill(PASSWORD)
    page.keyboard.press("Enter")
    expect(again).to_have_count(0)
    expect(page.get_by_label("Name", exact=True)).to_have_value("initech")
    page.get_by_role("button", name="Create tenant").click()
    expect(page.get_by_role("heading", name="initech", level=1)).to_be_visible()


@pytest.mark.usefixtures("people")
def test_a_person_signs_out_here_and_there(browser: Browser, secure: SecureInstance) -> None:
    with visitor(browser, secure) as here, visitor(browser, secure) as there:
        other = there.new_page()
        other.goto(TOPICS)
        sign_in(other, DAVE)
        expect(topic(other, "globex")).to_be_visible()
        page = here.new_page()
        page.goto("/account")
        sign_in(page, DAVE)
        page.get_by_role("button", name=re.compile("^Sign out there: ")).click()
        expect(page.get_by_role("button", name=re.compile("^Sign out there: "))).to_have_count(0)
        expect(other.get_by_role("dialog", name="Your session has ended")).to_be_visible()

        second = here.new_page()
        second.goto(TOPICS)
        expect(topic(second, "globex")).to_be_visible()
        corner(page).click()
        page.get_by_role("button", name="Sign out", exact=True).click()
        for tab in (page, second):
            expect(tab.get_by_role("heading", name="Sign in to Magnetar")).to_be_visible()
            expect(topic(tab, "globex")).to_have_count(0)


class Looks:
    """Looks at a page and its dialogs in both themes, the narrow one with all rules."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.problems: list[str] = []

    def at(self, name: str, within: str = "html") -> None:
        """Look at the present page, or at a part of it."""
        self.problems += violations(self.page, name, within, LOOKS)

    def at_dialog(self, button: str) -> None:
        """Open the dialog of a button, look at it and close it."""
        self.page.get_by_role("button", name=button).first.click()
        expect(self.page.get_by_role("dialog")).to_be_visible()
        self.at(button, "[role=dialog]")
        self.page.keyboard.press("Escape")
        expect(self.page.get_by_role("dialog")).to_have_count(0)


@pytest.mark.usefixtures("people")
def test_pages_and_dialogs_of_people_have_no_axe_violations(
    browser: Browser, secure: SecureInstance, axe_source: str
) -> None:
    with visitor(browser, secure, bypass_csp=True) as context:
        page = context.new_page()
        looks = Looks(page)
        page.goto("/account")
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        page.evaluate(axe_source)
        sign_in(page, ROOT, "wrong")
        expect(page.get_by_role("alert")).to_be_visible()
        looks.at("sign-in")
        sign_in(page, ROOT)
        expect(page.get_by_text("This session")).to_be_visible()
        looks.at("account")
        for button in ("Change password…", "New token…", "Account of"):
            looks.at_dialog(button)
        page.get_by_role("link", name="People").click()
        expect(page.get_by_role("link", name=ALICE)).to_be_visible()
        looks.at("people")
        looks.at_dialog("New person…")
        page.get_by_role("link", name=ALICE).click()
        expect(page.get_by_role("heading", name=ALICE)).to_be_visible()
        expect(page.get_by_text("No open session").or_(page.get_by_text("Sign out there").first))
        looks.at("person")
        for button in ("Edit…", "Reset password…", "Delete…"):
            looks.at_dialog(button)
        page.get_by_role("link", name="Payload rules").click()
        expect(page.get_by_text("Where no rule matches")).to_be_visible()
        looks.at("payload rules")
        page.get_by_role("button", name="Edit rules…").click()
        page.get_by_role("button", name="Add rule").click()
        looks.at("rules editor", "[role=dialog]")
    assert not looks.problems, "\n".join(looks.problems)


@pytest.mark.usefixtures("people")
def test_pages_of_rights_and_of_the_audit_log_have_no_axe_violations(
    browser: Browser, secure: SecureInstance, axe_source: str
) -> None:
    with visitor(browser, secure, bypass_csp=True) as context:
        page = context.new_page()
        looks = Looks(page)
        page.goto("/audit")
        sign_in(page, ROOT)
        page.evaluate(axe_source)
        rows = page.get_by_role("grid").get_by_role("row")
        expect(rows.nth(1)).to_be_visible()
        looks.at("audit log")
        page.get_by_role("button", name="Verify").click()
        expect(page.get_by_text("verified.")).to_be_visible()
        looks.at("verification", "[role=dialog]")
        page.keyboard.press("Escape")
        rows.nth(1).click()
        expect(page.get_by_role("heading", name=re.compile("^Entry"))).to_be_visible()
        looks.at("audit entry")
        page.get_by_role("link", name="Roles", exact=True).click()
        role = page.get_by_role("link", name="acme-admin")
        expect(role).to_be_visible()
        looks.at("roles")
        role.click()
        page.get_by_role("button", name="New token…").click()
        page.get_by_role("dialog").get_by_label("Name", exact=True).fill("robot")
        page.get_by_role("button", name="Create token").click()
        expect(page.get_by_text("it is not shown again")).to_be_visible()
        looks.at("token", "[role=dialog]")
        page.keyboard.press("Escape")
        expect(page.get_by_text("robot")).to_be_visible()
        looks.at("role")
        looks.at_dialog("Revoke…")
        page.get_by_role("link", name="Tenants", exact=True).click()
        page.get_by_role("link", name="acme", exact=True).click()
        expect(page.get_by_text("Who can do what here")).to_be_visible()
        looks.at("rights in a tenant")
        looks.at_dialog("Grant…")
        corner(page).click()
        page.get_by_role("button", name="View as a role…").click()
        looks.at("view as", "[role=dialog]")
        page.get_by_role("textbox", name="Role").fill("none")
        page.keyboard.press("Enter")
        expect(page.get_by_role("note")).to_be_visible()
        looks.at("refused page, viewed as a role")
        page.get_by_role("link", name="Overview", exact=True).click()
        expect(page.get_by_text("You may see no topic")).to_be_visible()
        looks.at("overview without rights")
    assert not looks.problems, "\n".join(looks.problems)


@pytest.mark.usefixtures("people")
def test_pages_and_dialogs_of_people_and_rights_are_german_once_it_is_chosen(page: Page) -> None:
    page.goto("/account")
    sign_in(page, ROOT)
    expect(page.get_by_text("This session")).to_be_visible()
    choose_german(page)
    dialogs = {
        "/account": ("Passwort ändern …", "Neues Token …", "Konto von"),
        "/people": ("Neue Person …",),
        f"/people/{ALICE}": (
            "Bearbeiten …",
            "Passwort zurücksetzen …",
            "Deaktivieren …",
            "Löschen …",
        ),
        "/c/standalone/roles": (),
        "/c/standalone/roles/acme-admin": ("Neues Token …",),
        "/c/standalone/tenants/acme": (),
    }
    for path, buttons in dialogs.items():
        page.goto(path)
        assert english(page) == [], path
        for button in buttons:
            page.get_by_role("button", name=button).first.click()
            expect(page.get_by_role("dialog")).to_be_visible()
            assert english(page) == [], f"{path}: {button}"
            page.keyboard.press("Escape")
            expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_role("button", name="Konto von").click()
    page.get_by_role("button", name="Abmelden", exact=True).click()
    expect(page.get_by_role("heading", name="Bei Magnetar anmelden")).to_be_visible()
    assert english(page) == []

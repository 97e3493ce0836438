"""Every page and dialog of the console as six people of two tenants: nothing of another tenant, nothing that fails or
waits for ever, and each refused action with the missing right."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, expect

from tests.e2e.walk.walk import MENUS, Shown, Walk
from tests.support.access.two_tenants import CLUSTER, TENANTS, canary, topic_of
from tests.support.instances.canaries import (
    ADMINS,
    OVERSEER,
    PEOPLE,
    Visitor,
    fill,
    publish,
    run_of,
)
from tests.support.instances.secure import PASSWORD, SecureInstance

TABS = (
    "",
    "/overview",
    "/subscriptions",
    "/partitions",
    "/schema",
    "/policies",
    "/manage",
    "/messages",
    "/traces",
    "/access",
)
PATHS = {
    "/alerts": "/alerts",
    "/": "/",
    "/connect": "/connect",
    "/c/$cluster": "/c/{cluster}",
    "/c/$cluster/topics": "/c/{cluster}/topics",
    "/c/$cluster/subscriptions": "/c/{cluster}/subscriptions",
    "/c/$cluster/changes": "/c/{cluster}/changes",
    "/c/$cluster/definitions": "/c/{cluster}/definitions",
    "/c/$cluster/changes/$id": "/c/{cluster}/changes/none",
    "/c/$cluster/dead-letters": "/c/{cluster}/dead-letters",
    "/c/$cluster/copies": "/c/{cluster}/copies",
    **{
        f"/c/$cluster/t/$tenant/$namespace/$topic{tab}": f"/c/{{cluster}}/t/{{place}}/{{topic}}{tab}"
        for tab in TABS
    },
    "/c/$cluster/t/$tenant/$namespace/$topic/messages/$message": (
        "/c/{cluster}/t/{place}/{topic}/messages/0:0"
    ),
    "/c/$cluster/t/$tenant/$namespace/$topic/publish": "/c/{cluster}/t/{place}/{topic}/publish",
    "/c/$cluster/t/$tenant/$namespace/$topic/tail": "/c/{cluster}/t/{place}/{topic}/tail",
    "/c/$cluster/tenants": "/c/{cluster}/tenants",
    "/c/$cluster/tenants/$tenant": "/c/{cluster}/tenants/{tenant}",
    "/c/$cluster/tenants/$tenant/$namespace": "/c/{cluster}/tenants/{place}",
    "/c/$cluster/brokers": "/c/{cluster}/brokers",
    "/c/$cluster/bundles": "/c/{cluster}/bundles",
    "/c/$cluster/bookies": "/c/{cluster}/bookies",
    "/c/$cluster/settings": "/c/{cluster}/settings",
    "/c/$cluster/clients": "/c/{cluster}/clients",
    "/c/$cluster/clients/$broker/$connection": "/c/{cluster}/clients/127.0.0.1:1/1-1",
    "/c/$cluster/transactions": "/c/{cluster}/transactions",
    "/c/$cluster/functions": "/c/{cluster}/functions",
    "/c/$cluster/functions/new": "/c/{cluster}/functions/new?component=sink",
    "/c/$cluster/functions/$component/$tenant/$namespace/$name": "/c/{cluster}/functions/function/{place}/none",
    "/c/$cluster/functions/$component/$tenant/$namespace/$name/update": "/c/{cluster}/functions/sink/{place}/x/update",
    "/c/$cluster/geo": "/c/{cluster}/geo",
    "/c/$cluster/geo/$remote": "/c/{cluster}/geo/eu",
    "/c/$cluster/roles": "/c/{cluster}/roles",
    "/c/$cluster/roles/$role": "/c/{cluster}/roles/{role}",
    "/analyses": "/analyses",
    "/analyses/$template/new": "/analyses/topic-profile/new?topic={name}",
    "/analyses/runs/$id": "/analyses/runs/{run}",
    "/analyses/runs/$id/compare/$other": "/analyses/runs/{run}/compare/{run}",
    "/account": "/account",
    "/people": "/people",
    "/people/$name": "/people/{person}",
    "/payload-rules": "/payload-rules",
    "/audit": "/audit",
    "/audit/$id": "/audit/{entry}",
    "/sign-in": "/sign-in",
    "/set-up": "/set-up",
}
"""A path of each route of the front end, with names of a tenant."""
WHY = re.compile(
    r"lacks .+ can grant it|is no .+ (makes|can make) it|needs level \w+; a superuser can give it"
)
"""Texts of a missing right, with who gives it."""
SHOWN_OF_A_TENANT = {
    *("tenant", "ns", "topic", "parts", "subscription", "key", "value", "property", "doc"),
    *("annotation", "role", "writer", "reader", "admin", "run", "parameter", "error"),
}
"""Canary texts that pages show to the administrator of a tenant and to superusers, ..."""
SHOWN_OF_SUPERUSERS = {"person"}
"""... and those that they show to superusers alone."""
PLACES_OF_SUPERUSERS = {"/people", "/payload-rules", "/audit"}
PARTLY_REFUSED = {"/analyses"}
"""Offered pages of which superusers alone see all: here the catalogue is for everybody, and the runs are not."""
PUSHED = "pushed "
"""Beginning of the request of pushes."""
MANY = 20
"""Number of messages that are no few ones: without a consumer they need attention after seconds."""
UNTRUE = re.compile(
    r"No (broker|bookie) is registered|no topic yet|No tenant yet|No bundle matches", re.IGNORECASE
)
"""Texts of an instance without parts or topics. This one has both, for every person."""
OWN = {"Change password…", "New token…"}
"""Actions of an account, which every level permits."""
SHOWN_REFUSALS = (403, 404, 409)
"""Refusals that pages show: no right, no such object, and no functions worker in this instance."""
IN_FORMS = {"Preview …", "Upload a file …", "Try on the last 10 messages"}
"""Buttons that open no dialog, or only for a form that is filled in, or one of the browser."""
READING = {"If it died…"}
"""Dialogs that change nothing."""


@pytest.fixture(scope="module")
def entries(secure: SecureInstance) -> dict[int, int]:
    """Fill the instance; return the id of an entry of the audit log of each tenant."""
    fill(secure)
    path = "/api/v1/audit?tenant="
    return {
        tenant: secure.call("GET", path + canary(tenant, "tenant"))["rows"][0]["id"]
        for tenant in TENANTS
    }


@contextmanager
def walking(browser: Browser, secure: SecureInstance, visitor: Visitor) -> Iterator[Walk]:
    """Yield a walk of a person who is signed in; its pages must have no uncaught errors."""
    context = browser.new_context(
        base_url=secure.url,
        ignore_https_errors=True,
        reduced_motion="reduce",
        viewport={"width": 1440, "height": 900},
    )
    walk = Walk(context)
    walk.begin(visitor.name, PASSWORD)
    yield walk
    context.close()
    assert walk.errors == []


def paths(tenant: int, entries: dict[int, int]) -> dict[str, str]:
    """Return the path of each route with names of a tenant."""
    names = {
        "cluster": CLUSTER,
        **{what: canary(tenant, what) for what in ("tenant", "topic", "person")},
        "place": f"{canary(tenant, 'tenant')}/{canary(tenant, 'ns')}",
        "role": canary(tenant, "admin"),
        "name": topic_of(tenant),
        "run": run_of(tenant),
        "entry": entries[tenant],
    }
    return {route: path.format(**names) for route, path in PATHS.items()}


def unseen(shown: Shown, seen: tuple[int, ...]) -> dict[str, set[str]]:
    """Return the canary texts of tenants that a person does not see, by their origin."""
    own = tuple(f"canary-t{tenant}-" for tenant in seen)
    others = {
        origin: {text for text in texts if not text.startswith(own)}
        for origin, texts in shown.not_named().items()
    }
    return {origin: texts for origin, texts in others.items() if texts}


def hidden(shown: Shown) -> list[str]:
    """Return the refused calls of which the page does not show the reason."""
    return [
        f"{refusal.call}: {refusal.status} {refusal.body}"
        for refusal in shown.refused
        if refusal.status not in SHOWN_REFUSALS or refusal.reason not in shown.text
    ]


class Visit:
    """All pages as one person; ``problems`` has what is wrong, with the page where it is."""

    def __init__(self, walk: Walk, visitor: Visitor) -> None:
        self.walk = walk
        self.visitor = visitor
        self.kinds: set[str] = set()
        self.refused: set[str] = set()
        """Paths of pages on which a call was refused."""
        self.problems: list[str] = []

    def page(self, path: str) -> None:
        """Go to a page and judge it."""
        shown = self.walk.go(path)
        self._judge(shown, path)
        if shown.refused:
            self.refused.add(path)

    def dialogs(self, path: str) -> None:
        """Open each dialog and each menu of the present page and judge it, or the reason why it does not open."""
        walk = self.walk
        for number in range(walk.page.locator(MENUS).count()):
            walk.page.locator(MENUS).nth(number).click()
            self._judge(walk.look(path), f"{path} menu {number}")
            walk.close()
        for text in walk.opening():
            why = walk.why_not(button := walk.button(text))
            if why is None:
                button.click()
                self._dialog(path, text)
            elif why and not WHY.search(why):
                self.problems.append(f"{path} {text} is refused without a right: {why}")

    def _dialog(self, path: str, text: str) -> None:
        walk, where = self.walk, f"{path} {text}"
        dialog = walk.page.get_by_role("dialog")
        if text == "Run again…":  # a link to the form
            walk.go(path)
            return
        if text in IN_FORMS:
            self._judge(walk.look(path), where)
            return
        expect(dialog).to_be_visible()
        typed = ""
        if text == "New topic…":
            typed = f"{canary(1, 'tenant')}/{canary(1, 'ns')}"
            dialog.get_by_label("Namespace").fill(typed)
            dialog.get_by_label("Name", exact=True).fill("later")
        self._judge(walk.look(path + typed), where)
        confirm = dialog.get_by_role("button").last
        why = walk.why_not(confirm)
        failed = dialog.get_by_role("alert").count() > 0
        is_refused = bool(WHY.search(why or "") or (why == "" and WHY.search(dialog.inner_text())))
        may_change = self.visitor.level == "full" and self.visitor.tenants
        if not may_change and text not in OWN | READING and not is_refused:
            self.problems.append(f"{where} opens, and is not refused")
        if failed and not is_refused:
            self.problems.append(f"{where} opens, and fails")
        walk.close()

    def everything(self, entries: dict[int, int]) -> None:
        """Visit all pages with names of a seen tenant, the palette, and the pages that name another tenant."""
        walk, seen = self.walk, self.visitor.tenants
        own, *others = sorted(TENANTS, key=lambda tenant: tenant not in seen)
        for route, path in paths(own, entries).items():
            self.page(path)
            # The other dialogs of tenants are those of the first administrator and of its reader.
            if self.visitor != ADMINS[1] and (len(seen) < 2 or "$tenant" not in route):
                self.dialogs(path)
        walk.page.keyboard.press("Control+k")
        walk.page.get_by_role("textbox", name="Open a topic or a place").fill("canary")
        self._judge(walk.look(""), "palette")
        walk.close()
        for tenant in others:
            for route, path in paths(tenant, entries).items():
                if "canary" in path or "$id" in route:
                    self.page(path)

    def _judge(self, shown: Shown, where: str) -> None:
        own = set().union(*shown.not_named().values())
        self.kinds |= {text.split("-", 2)[2] for text in own}
        if others := unseen(shown, self.visitor.tenants):
            self.problems.append(f"{where} has texts of another tenant: {others}")
        self.problems += [f"{where} shows {text[0]!r}" for text in UNTRUE.finditer(shown.text)]
        self.problems += [f"{where} hides a refusal: {text}" for text in hidden(shown)]


@pytest.mark.timeout(200)
@pytest.mark.parametrize("visitor", PEOPLE, ids=lambda visitor: visitor.name)
def test_a_person_is_shown_its_own_tenants_and_each_refusal_with_its_right(
    visitor: Visitor, browser: Browser, secure: SecureInstance, entries: dict[int, int]
) -> None:
    with walking(browser, secure, visitor) as walk:
        assert walk.routes() == set(PATHS), "each route of the front end needs a path here"
        offered = walk.offered()
        visit = Visit(walk, visitor)
        visit.everything(entries)
    assert (offered >= PLACES_OF_SUPERUSERS) is visitor.superuser
    assert visit.refused & offered <= PARTLY_REFUSED
    exported = any("/topics/export?" in request for request in walk.received)
    assert exported is bool(visitor.tenants and visitor != ADMINS[1])
    wanted = SHOWN_OF_A_TENANT if visitor.tenants else set()
    superusers = SHOWN_OF_SUPERUSERS if visitor.superuser else set()
    assert visit.kinds >= wanted | superusers
    assert not visit.problems, "\n".join(visit.problems)


def test_a_superuser_who_views_as_a_role_is_shown_nothing_else(
    browser: Browser, secure: SecureInstance, entries: dict[int, int]
) -> None:
    """Texts that were shown before remain on no page."""
    with walking(browser, secure, OVERSEER) as walk:
        for path in ("/", f"/c/{CLUSTER}/topics", f"/c/{CLUSTER}/tenants"):
            assert unseen(walk.go(path), ADMINS[0].tenants)
        walk.page.get_by_role("button", name="Account of").click()
        walk.page.get_by_role("button", name="View as a role…").click()
        walk.page.get_by_role("textbox", name="Role").fill(ADMINS[0].role)
        walk.page.keyboard.press("Enter")
        expect(walk.page.get_by_role("note")).to_contain_text("Nothing can be changed")
        walk.look("/")
        visit = Visit(walk, ADMINS[0]._replace(level="read"))
        for path in paths(1, entries).values():
            visit.page(path)
    assert visit.kinds >= SHOWN_OF_A_TENANT
    assert not visit.problems, "\n".join(visit.problems)


def test_two_people_at_once_are_pushed_the_changes_of_their_own_tenant(
    browser: Browser, secure: SecureInstance, entries: dict[int, int]
) -> None:
    """Topics, what needs attention, a topic's figures and history, and the state of the instance's parts."""
    later = {tenant: topic_of(tenant).replace("-topic", "-later") for tenant in TENANTS}
    with (
        walking(browser, secure, ADMINS[0]) as first,
        walking(browser, secure, ADMINS[1]) as second,
    ):
        walks = dict(zip(TENANTS, (first, second), strict=True))
        for walk in walks.values():
            walk.go(f"/c/{CLUSTER}/topics")
        for topic in later.values():
            path = f"/admin/v2/{topic.replace('://', '/')}"
            secure.call("PUT", path)
            secure.call("PUT", f"{path}/subscription/late")
        for tenant, walk in walks.items():
            row = walk.page.get_by_role("link", name=canary(tenant, "later"))
            expect(row).to_be_visible()
            walk.go("/")
        publish(secure, later, MANY)
        for tenant, walk in walks.items():
            needs = walk.page.get_by_role("region", name="Needs attention")
            expect(needs).to_contain_text(canary(tenant, "later"))
            names = later[tenant].removeprefix("persistent://")
            walk.go(f"/c/{CLUSTER}/t/{names}/overview")
        publish(secure, later, MANY)
        for tenant, walk in walks.items():
            expect(walk.page.locator("main")).to_contain_text(f"{2 * MANY} messages")
            walk.look("")
            texts = set().union(*walk.received.values())
            assert not [text for text in texts if not text.startswith(f"canary-t{tenant}-")]
            requests = [text.removeprefix(PUSHED) for text in walk.received if PUSHED in text]
            # Beats answer no request. They have the state of the instance's parts, and nothing of a tenant.
            assert "" not in requests
            assert {json.loads(text)["channel"] for text in requests} >= {"topics", "overview"}
    assert secure.instance.child("redis")["state"] == "stopped"

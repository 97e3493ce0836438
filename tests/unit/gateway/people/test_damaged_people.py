"""Stored roles of another kind than the console writes give no right, and stop neither other people nor the repair."""

from typing import Any

import pytest

from gateway.people.models import Person
from tests.support.access.browser import Browser
from tests.unit.gateway.people.conftest import AddPerson

DAMAGED: list[Any] = [
    "",
    0,
    {},
    "root",
    {"root": "full"},
    ["root"],
    [[]],
    [{"role": "root"}],
    [{"role": "root", "level": "all"}],
    [{"role": "root", "level": ["full"]}],
    [{"role": "root", "level": None}],
    [{"role": "", "level": "full"}],
    [{"role": 5, "level": "full"}],
    [{"role": "root", "level": "full"}, None],
]


@pytest.mark.parametrize("roles", DAMAGED, ids=str)
def test_damaged_roles_give_no_right_and_can_be_repaired(
    roles: Any, browser: Browser, add: AddPerson, root: Any
) -> None:
    # A person without stored roles acts as the role of its name, at level full.
    superuser, damaged = browser, Browser(browser.gateway)
    superuser.sign_in("root")
    user = add("app", "app:read")
    damaged.sign_in("app")
    Person.objects.get(pk=user.pk).delete()
    Person.objects.create(user=user, roles=roles)
    assert damaged.person is None
    assert damaged("GET", "session/sessions").status == 401
    refused = Browser(browser.gateway).sign_in("app")
    assert refused.status == 403
    assert "no role" in refused.json["reason"]
    rows = {row["name"]: row["roles"] for row in superuser("GET", "people").json["rows"]}
    assert rows["app"] == []
    repaired = {"display_name": "", "roles": [{"role": "app", "level": "read"}], "active": True}
    assert superuser("PUT", "people/app", repaired).status == 200
    assert Browser(browser.gateway).sign_in("app").json["person"]["level"] == "read"

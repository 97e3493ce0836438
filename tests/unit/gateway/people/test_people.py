"""People as superusers create, change and delete them."""

from typing import Any

import pytest
from django.contrib.auth import get_user_model

from admin_ui.models import AuditEntry
from gateway.people.models import PersonSession
from tests.support.access.browser import PASSWORD, Browser
from tests.support.access.callers import bearer, by_token
from tests.unit.gateway.people.conftest import AddPerson

NEW = "another-horse-8"
BILLING = [{"role": "billing", "level": "operate"}]


@pytest.fixture
def admin(browser: Browser, root: Any) -> Browser:
    """The browser of a superuser."""
    browser.sign_in("root")
    return browser


def test_a_created_person_signs_in_once_with_the_password_of_the_answer(admin: Browser) -> None:
    body = {"name": "ann@example.org", "display_name": "Ann", "roles": BILLING}
    answer = admin("POST", "people", body)
    assert answer.status == 201
    password = answer.json["one_time_password"]
    row = answer.json["person"]
    assert row == admin("GET", "people/ann@example.org").json
    assert row.pop("created_at") > 0
    assert row == {
        "name": "ann@example.org",
        "display_name": "Ann",
        "active": True,
        "superuser": False,
        "roles": BILLING,
        "provider": "",
        "must_change_password": True,
        "last_sign_in_at": None,
        "sessions": 0,
    }
    ann = Browser(admin.gateway)
    refused = ann.sign_in("ann@example.org", password)
    assert (refused.status, refused.json["password_change_needed"]) == (409, True)
    assert ann.person is None
    assert ann.sign_in("ann@example.org", password, new_password="short").status == 422
    assert ann.sign_in("ann@example.org", password, new_password=password).status == 422
    assert ann.sign_in("ann@example.org", "wrong", new_password=NEW).status == 401
    assert ann.sign_in("ann@example.org", password, new_password=NEW).status == 200
    assert ann.person["level"] == "operate"
    assert ann.sign_in("ann@example.org", password).status == 401
    assert ann.sign_in("ann@example.org", NEW).status == 200
    row = admin("GET", "people/ann@example.org").json
    assert (row["must_change_password"], row["sessions"]) == (False, 1)
    assert row["last_sign_in_at"] > 0


def test_a_new_password_at_sign_in_is_for_one_time_passwords_alone(
    admin: Browser, add: AddPerson
) -> None:
    """Otherwise a sign-in that a page of another site forged could change it."""
    add("ann", "billing:full")
    ann = Browser(admin.gateway)
    assert ann.sign_in("ann", PASSWORD, new_password=NEW).status == 200
    assert ann.sign_in("ann", NEW).status == 401


def test_no_password_is_in_the_audit_log(admin: Browser) -> None:
    password = admin("POST", "people", {"name": "ann", "roles": BILLING}).json["one_time_password"]
    again = admin("POST", "people/ann/reset-password").json["one_time_password"]
    ann = Browser(admin.gateway)
    ann.sign_in("ann", again, new_password=NEW)
    ann("POST", "session/password", {"current": NEW, "new": PASSWORD})
    entries = AuditEntry.objects.all()
    assert {(entry.actor, entry.method, entry.target) for entry in entries} == {
        ("root", "POST", "/api/v1/session/sign-in"),
        ("root", "POST", "/api/v1/people"),
        ("root", "POST", "/api/v1/people/ann/reset-password"),
        ("ann", "POST", "/api/v1/session/sign-in"),
        ("ann", "POST", "/api/v1/session/password"),
    }
    text = str(list(entries.values()))
    assert not [secret for secret in (password, again, NEW, PASSWORD) if secret in text]
    assert "billing" in text


def test_a_reset_password_signs_the_person_out_everywhere(admin: Browser, add: AddPerson) -> None:
    add("ann", "billing:full")
    ann = Browser(admin.gateway)
    ann.sign_in("ann")
    answer = admin("POST", "people/ann/reset-password")
    assert ann.person is None
    assert ann.sign_in("ann").status == 401
    password = answer.json["one_time_password"]
    assert ann.sign_in("ann", password).status == 409
    assert ann.sign_in("ann", password, new_password=NEW).status == 200


def test_a_person_who_is_not_active_is_signed_out_and_stays_so(
    admin: Browser, add: AddPerson
) -> None:
    add("ann", "billing:full")
    ann = Browser(admin.gateway)
    ann.sign_in("ann")
    change = {"display_name": "Ann", "roles": BILLING, "active": False}
    row = admin("PUT", "people/ann", change).json
    assert (row["active"], row["display_name"], row["roles"]) == (False, "Ann", BILLING)
    assert ann.person is None
    assert ann.sign_in("ann").status == 401
    assert not PersonSession.objects.exclude(public_id="").filter(address="").exists()
    admin("PUT", "people/ann", {**change, "active": True})
    assert ann.person is None
    assert ann.sign_in("ann").status == 200


def test_changed_roles_act_in_open_sessions(admin: Browser, add: AddPerson) -> None:
    add("ann", "billing:full")
    ann = Browser(admin.gateway)
    ann.sign_in("ann")
    admin("PUT", "people/ann", {"roles": BILLING})
    assert (ann.person["role"], ann.person["level"]) == ("billing", "operate")


def test_a_superuser_of_django_gets_stored_roles(admin: Browser) -> None:
    get_user_model().objects.create_superuser("old")
    assert admin("GET", "people/old").json["superuser"] is True
    row = admin("PUT", "people/old", {"roles": BILLING}).json
    assert (row["superuser"], row["roles"]) == (False, BILLING)
    assert get_user_model().objects.get(username="old").is_superuser is False


def test_an_unchanged_superuser_of_django_follows_the_settings(
    admin: Browser, settings: Any
) -> None:
    get_user_model().objects.create_superuser("old")
    shown = admin("GET", "people/old").json["roles"]
    admin("PUT", "people/old", {"roles": shown, "display_name": "Old"})
    settings.IDENTITY = by_token(super_user_roles="other,root")
    assert admin("GET", "people/old").json["roles"] == [{"role": "other", "level": "full"}]


def test_the_last_superuser_stays(admin: Browser, add: AddPerson) -> None:
    no_more = {"roles": [{"role": "root", "level": "operate"}]}
    away = {"roles": [{"role": "root", "level": "full"}], "active": False}
    for answer in (
        admin("DELETE", "people/root"),
        admin("PUT", "people/root", no_more),
        admin("PUT", "people/root", away),
    ):
        assert answer.status == 409
        assert "last superuser" in answer.json["reason"]
    assert admin.person["superuser"] is True
    second = add("second", "root:full")
    second.is_active = False
    second.save()
    assert admin("DELETE", "people/root").status == 409
    second.is_active = True
    second.save()
    assert admin("PUT", "people/root", no_more).status == 200


def test_others_are_deleted_where_no_person_is_a_superuser(
    browser: Browser, add: AddPerson
) -> None:
    add("ann", "billing:full")
    ann = Browser(browser.gateway)
    ann.sign_in("ann")
    headers = bearer("root")
    assert browser("DELETE", "people/ann", headers=headers).status == 204
    assert browser("DELETE", "people/ann", headers=headers).status == 404
    assert ann.person is None
    assert not PersonSession.objects.exists()


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": "a b", "roles": BILLING}, "name"),
        ({"name": "a/b", "roles": BILLING}, "name"),
        ({"name": "a\0b", "roles": BILLING}, "name"),
        ({"name": "ann"}, "roles"),
        ({"name": "ann", "roles": []}, "roles"),
        ({"name": "ann", "roles": BILLING * 2}, "roles"),
        ({"name": "ann", "roles": [{"role": "x", "level": "all"}]}, "roles"),
        (
            {"name": "ann", "roles": [{"role": f"r{i}", "level": "read"} for i in range(51)]},
            "roles",
        ),
    ],
)
def test_a_wrong_body_names_its_field(body: Any, field: str, admin: Browser) -> None:
    answer = admin("POST", "people", body)
    assert (answer.status, answer.json["field"]) == (400, field)
    assert get_user_model().objects.count() == 1


def test_a_name_is_given_once_whatever_its_case(admin: Browser) -> None:
    assert admin("POST", "people", {"name": "Ann", "roles": BILLING}).status == 201
    for name in ("Ann", "ann"):
        assert admin("POST", "people", {"name": name, "roles": BILLING}).status == 409


def test_people_are_listed_in_windows(admin: Browser, add: AddPerson) -> None:
    for name in ("bob", "ann", "cid"):
        add(name, "billing:full", display_name=name.title())
    listed = admin("GET", "people?limit=2&offset=1").json
    assert (listed["total"], listed["offset"], listed["limit"]) == (4, 1, 2)
    assert [row["name"] for row in listed["rows"]] == ["bob", "cid"]
    assert [row["name"] for row in admin("GET", "people?q=AN").json["rows"]] == ["ann"]
    everybody = admin("GET", "people").json["rows"]
    assert {row["name"]: row["sessions"] for row in everybody} == {
        **dict.fromkeys(("ann", "bob", "cid"), 0),
        "root": 1,
    }


def test_a_superuser_ends_sessions_of_others(admin: Browser, add: AddPerson) -> None:
    add("ann", "billing:full")
    first, second = Browser(admin.gateway, "192.0.2.1"), Browser(admin.gateway, "192.0.2.2")
    for ann in (first, second):
        ann.sign_in("ann")
    rows = admin("GET", "people/ann/sessions").json["rows"]
    assert [row["address"] for row in rows] == ["192.0.2.2", "192.0.2.1"]
    assert admin("DELETE", f"people/root/sessions/{rows[0]['id']}").status == 404
    assert admin("DELETE", f"people/ann/sessions/{rows[0]['id']}").status == 204
    assert (first.person is None, second.person is None) == (False, True)
    assert admin("DELETE", "people/ann/sessions").status == 204
    assert first.person is None
    assert admin.person is not None


def test_roles_and_passwords_of_a_person_of_a_provider_are_the_providers(
    admin: Browser, add: AddPerson
) -> None:
    add("ann", "billing:full", provider="corp", subject="1")
    assert admin("PUT", "people/ann", {"roles": BILLING}).status == 409
    assert admin("POST", "people/ann/reset-password").status == 409
    same = {"roles": [{"role": "billing", "level": "full"}], "active": False}
    assert admin("PUT", "people/ann", same).json["active"] is False


def test_where_callers_are_not_identified_they_create_no_person(
    browser: Browser, settings: Any
) -> None:
    """Refuse it: a person created so could sign in once authentication is on."""
    settings.IDENTITY = by_token(authentication_enabled=False)
    answer = browser("POST", "people", {"name": "ann", "roles": BILLING})
    assert (answer.status, "authentication_enabled" in answer.json["reason"]) == (409, True)
    assert browser("GET", "people").json["rows"] == []
    assert not get_user_model().objects.exists()

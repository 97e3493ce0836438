"""Sessions and people are read once in a while, and every change counts within a second, those of this gateway at
once."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.people import accounts, held_people
from gateway.people.acting import ActingRole
from gateway.people.held_people import Credential, HeldPeople
from gateway.people.models import Person, PersonSession
from gateway.people.sessions import end_sessions
from tests.support.access.browser import PASSWORD, Browser
from tests.unit.gateway.people.conftest import AddPerson
from tests.unit.gateway.people.test_failing_database import away

NEW = "another-password-1"


class Clock:
    """The clock by which held people count, which stands still, and a count of the reads."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 0.0
        self.reads = 0
        self.during_a_read: Callable[[], object] = lambda: None
        read = HeldPeople._read

        def counted(held: HeldPeople, credentials: tuple[Credential, ...]) -> Any:
            self.reads += 1
            answer = read(held, credentials)
            self.during_a_read()
            return answer

        monkeypatch.setattr(HeldPeople, "_read", counted)
        monkeypatch.setattr(held_people, "time", SimpleNamespace(monotonic=lambda: self.now_s))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def ann(clock: Clock, browser: Browser, add: AddPerson) -> Browser:
    """A superuser in a session that was read; another superuser exists."""
    add("ann", "root:full", "other:full")
    add("root", "root:full")
    browser.sign_in("ann")
    assert browser.person["role"] == "root"
    clock.reads = 0
    return browser


def test_calls_of_a_session_share_a_read(ann: Browser, clock: Clock) -> None:
    for _ in range(3):
        assert ann.person["role"] == "root"
    assert clock.reads == 0
    clock.now_s += held_people.HELD_S
    for _ in range(3):
        assert ann.person["role"] == "root"
    assert clock.reads == 1


def test_a_change_by_another_gateway_counts_within_a_second(ann: Browser, clock: Clock) -> None:
    # An update of rows announces nothing in this process.
    Person.objects.filter(user__username="ann").update(roles=[{"role": "other", "level": "read"}])
    clock.now_s += 1.0
    assert (ann.person["role"], ann.person["level"]) == ("other", "read")
    PersonSession.objects.filter(user_id__gt=0)._raw_delete(using="default")
    clock.now_s += 1.0
    assert ann.person is None


def sign_out(ann: Browser) -> None:
    copy = Browser(ann.gateway)
    copy.cookies = dict(ann.cookies)
    assert copy("POST", "session/sign-out").status == 200


def change_password(ann: Browser) -> None:
    other = Browser(ann.gateway)
    other.sign_in("ann")
    assert other("POST", "session/password", {"current": PASSWORD, "new": NEW}).status == 204


def act_as_another_role(ann: Browser) -> None:
    copy = Browser(ann.gateway)
    copy.cookies = dict(ann.cookies)
    assert copy("POST", "session/acting-role", {"role": "other"}).status == 200


def change(**changed: Any) -> Callable[[Browser], object]:
    given = {"display_name": "", "roles": [ActingRole("root")], "active": True} | changed
    return lambda ann: accounts.change_person("ann", **given)


@pytest.mark.parametrize(
    "end",
    [
        sign_out,
        change_password,
        act_as_another_role,
        change(active=False),
        change(roles=[ActingRole("other")]),
        change(roles=[ActingRole("root", "read")]),
        lambda ann: accounts.delete_person("ann"),
        lambda ann: accounts.reset_password("ann"),
        lambda ann: accounts.sign_out_everywhere("ann"),
        lambda ann: end_sessions(PersonSession.objects.latest("created_at_ms").user_id),
    ],
)
def test_a_change_by_this_gateway_counts_at_once(
    end: Callable[[Browser], object], ann: Browser
) -> None:
    before = ann.person
    end(ann)
    assert ann.person != before


def test_a_read_that_begins_before_a_change_does_not_count_after_it(
    ann: Browser, clock: Clock
) -> None:
    def disable() -> None:
        clock.during_a_read = lambda: None
        accounts.change_person("ann", "", [ActingRole("root")], active=False)

    clock.during_a_read = disable
    clock.now_s += held_people.HELD_S
    assert ann.person is not None, "it was read before the change"
    assert ann.person is None


def test_a_change_that_is_rolled_back_ends_nothing(ann: Browser) -> None:
    accounts.delete_person("root")
    with pytest.raises(Exception, match="last superuser"):
        accounts.change_person("ann", "", [ActingRole("root")], active=False)
    assert ann.person["role"] == "root"


def test_without_the_database_nothing_counts_for_longer(ann: Browser, clock: Clock) -> None:
    with away(0):
        assert ann.person["role"] == "root"
        clock.now_s += held_people.HELD_S
        assert ann("GET", "session").status == 503


def test_credentials_that_are_used_no_more_are_dropped(
    ann: Browser, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = ann.gateway.clusters.part(HeldPeople)
    held._room = 2
    for _ in range(5):
        other = Browser(ann.gateway)
        other.sign_in("root")
        assert other.person["name"] == "root"
        clock.now_s += 1.0
    assert len(held._held) <= 3

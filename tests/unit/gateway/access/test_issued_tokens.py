"""Tokens that the console issues: shown once, limited to a level and a person, used and revoked."""

import base64
import json
import threading
from dataclasses import replace
from typing import Any

import pytest

from admin_ui.models import AuditEntry
from engine.auth.authenticators import jws
from engine.auth.authenticators.provider import Presented
from engine.auth.authenticators.token_provider import token_provider
from engine.auth.credentials import AuthenticationFailed
from engine.base.clock import SystemClock
from gateway.access import issued_tokens
from gateway.access.issued_tokens import UsedTokens, lower_of
from gateway.access.models import IssuedToken, PayloadRule
from gateway.access.payload_rules import PayloadRules
from gateway.clusters.cluster import Cluster
from gateway.people.models import Person
from gateway.sign_in import AccessLevel
from tests.support.access.browser import Browser
from tests.support.access.callers import KEY, by_token
from tests.support.admin.gateway_client import Gateway
from tests.support.net.socket_pair import SocketPair
from tests.unit.gateway.people.conftest import (
    AddPerson,
    add,
    browser,
    call,
    cluster,
    door,
    engine,
    gateway,
    root,
)

__all__ = ["add", "browser", "call", "cluster", "door", "engine", "gateway", "root"]
HOUR = 3600
PEEK = "/admin/v2/persistent/t/n/p/subscription/s/position/1"
READ_CALL, CHANGE = "/admin/v2/tenants", "/admin/v2/tenants/new"
INFO = {"adminRoles": [], "allowedClusters": ["standalone"]}


@pytest.fixture
def keyed(door: Gateway, settings: Any) -> Gateway:
    """The gateway with a key to sign tokens, and with rights that are judged."""
    settings.IDENTITY = by_token(super_user_roles="root", authorization_enabled=True)
    settings.ENVIRONMENT = replace(
        settings.ENVIRONMENT, token_signing_key=base64.b64encode(KEY).decode()
    )
    return door


@pytest.fixture
def admin(keyed: Gateway, browser: Browser, root: Any) -> Browser:
    browser.sign_in("root")
    return browser


def issued(browser: Browser, path: str = "tokens", **changed: Any) -> Any:
    """Return the answer to a new token."""
    body = {"name": "job", "role": "root", "level": "full", "expires_in_s": HOUR} | changed
    if path != "tokens":
        body.pop("role", None)
    answer = browser("POST", path, body)
    assert answer.status == 201, answer.body
    return answer.json


def by(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def at_broker(token: str) -> Any:
    """Authenticate a token as a broker does."""
    provider = token_provider(by_token().token, lambda: SystemClock().wall_ms() / 1000)
    return provider.authenticate(Presented(token.encode(), None))


def test_a_token_is_answered_once_and_neither_stored_nor_recorded(admin: Browser) -> None:
    body = issued(admin)
    row = body["row"]
    assert (row["role"], row["level"], row["kind"], row["created_by"]) == (
        "root",
        "full",
        "role",
        "root",
    )
    assert row["expires_at"] - row["created_at"] == HOUR * 1000
    listed = admin("GET", "tokens").json
    assert listed["rows"] == [row]
    assert listed["obstacle"] == ""
    signature = body["token"].rpartition(".")[2]
    stored = json.dumps([*IssuedToken.objects.values(), *AuditEntry.objects.values()], default=str)
    assert signature not in stored
    assert row["token_id"] in stored
    assert admin("GET", "tokens?q=JOB&kind=role").json["total"] == 1
    assert admin("GET", "tokens?kind=personal").json["total"] == 0


def test_a_token_works_on_both_interfaces_and_at_brokers(admin: Browser, keyed: Gateway) -> None:
    token = issued(admin)["token"]
    assert at_broker(token).role == "root"
    assert keyed("GET", "/api/v1/audit", headers=by(token)).status == 200
    assert keyed("GET", READ_CALL, headers=by(token)).status == 200
    assert keyed("PUT", CHANGE, INFO, headers=by(token)).status == 204
    token = issued(admin, role="app")["token"]
    assert at_broker(token).role == "app"
    assert keyed("GET", "/api/v1/audit", headers=by(token)).status == 403
    assert keyed("PUT", CHANGE, INFO, headers=by(token)).status == 401, "no right of the role"


@pytest.mark.parametrize("level", ["read", "operate"])
def test_a_token_below_level_full_is_refused_by_brokers_and_narrowed_at_gateways(
    level: str, admin: Browser, keyed: Gateway
) -> None:
    token = issued(admin, level=level)["token"]
    with pytest.raises(AuthenticationFailed) as refused:
        at_broker(token)
    assert "sub" in refused.value.reason
    assert keyed("GET", READ_CALL, headers=by(token)).status == 200
    assert keyed("GET", "/api/v1/audit", headers=by(token)).status == 200
    for path, method, body in (
        (CHANGE, "PUT", INFO),
        ("/api/v1/clusters/standalone/tenants", "POST", {}),
        ("/api/v1/tokens", "POST", {}),
    ):
        answer = keyed(method, path, body, headers=by(token))
        assert answer.status == 403
        assert f"at level {level}" in answer.json["reason"]
    unload = keyed("PUT", "/admin/v2/persistent/t/n/p/unload", headers=by(token))
    assert unload.status == (403 if level == "read" else 404)


def signed(**claims: Any) -> str:
    return issued_tokens._signed(claims, issued_tokens._key(base64.b64encode(KEY).decode()))


def test_a_token_with_a_level_that_is_not_known_only_reads(keyed: Gateway) -> None:
    for claims in ({"gateway_level": "all"}, {}, {"gateway_level": 7}):
        token = signed(gateway_role="root", **claims)
        assert keyed("GET", READ_CALL, headers=by(token)).status == 200
        assert keyed("PUT", CHANGE, INFO, headers=by(token)).status == 403
    for claims in ({"gateway_role": ""}, {"gateway_role": "root", "gateway_person": ""}):
        assert keyed("GET", READ_CALL, headers=by(signed(**claims))).status == 401
    assert [lower_of("full", level) for level in ("read", "operate", "full", "x")] == [
        "read",
        "operate",
        "full",
        "read",
    ]


def test_a_personal_token_has_the_acting_role_at_most_at_its_level(
    keyed: Gateway, add: AddPerson
) -> None:
    add("ann", "root:operate")
    ann = Browser(keyed)
    ann.sign_in("ann")
    refused = ann("POST", "session/tokens", {"name": "x", "level": "full", "expires_in_s": HOUR})
    assert (refused.status, refused.json["field"]) == (400, "level")
    body = issued(ann, "session/tokens", level="operate")
    assert (body["row"]["role"], body["row"]["person"]) == ("root", "ann")
    token = body["token"]
    with pytest.raises(AuthenticationFailed):
        at_broker(token)
    assert keyed("GET", READ_CALL, headers=by(token)).status == 200
    AuditEntry.objects.all().delete()
    assert keyed("PUT", CHANGE, INFO, headers=by(token)).status == 403
    assert AuditEntry.objects.get().actor == "ann", "the audit log names the person"
    assert keyed("POST", "/api/v1/session/tokens", {}, headers=by(token)).status == 403


def test_a_personal_token_at_level_full_is_for_gateways_alone_too(admin: Browser) -> None:
    with pytest.raises(AuthenticationFailed):
        at_broker(issued(admin, "session/tokens", level="full")["token"])


def test_a_personal_token_has_no_more_than_the_level_of_its_person_now(
    keyed: Gateway, add: AddPerson
) -> None:
    person = Person.objects.get(user=add("ann", "root:full"))
    ann = Browser(keyed)
    ann.sign_in("ann")
    token = issued(ann, "session/tokens", level="full")["token"]
    assert keyed("PUT", CHANGE, INFO, headers=by(token)).status == 204
    person.roles = [{"role": "root", "level": "read"}]
    person.save()
    assert keyed("PUT", CHANGE, INFO, headers=by(token)).status == 403
    assert keyed("GET", READ_CALL, headers=by(token)).status == 200


@pytest.mark.parametrize("level", ["full", "read"])
def test_a_personal_token_follows_the_payload_rules_as_its_person_does(
    level: str, admin: Browser, keyed: Gateway
) -> None:
    token = issued(admin, "session/tokens", level=level)["token"]
    PayloadRule.objects.create(position=0, role="root", namespace="t/n", shown=False)
    assert admin("GET", PEEK).status == 403
    assert keyed("GET", PEEK, headers=by(token)).status == 403
    PayloadRule.objects.update(shown=True)
    keyed.clusters.part(PayloadRules).renew()
    AuditEntry.objects.all().delete()
    assert keyed("GET", PEEK, headers=by(token)).status == 404
    assert AuditEntry.objects.get().actor == "root", "the reveal is recorded for the person"


def test_a_person_viewing_as_a_role_makes_no_token_of_it(admin: Browser) -> None:
    assert admin("POST", "session/view-as", {"role": "app"}).status == 200
    body = {"name": "x", "level": "read", "expires_in_s": HOUR}
    answer = admin("POST", "session/tokens", body)
    assert (answer.status, "view" in answer.json["reason"]) == (403, True)
    assert not IssuedToken.objects.exists()


def test_own_tokens_are_those_of_the_person_alone(keyed: Gateway, add: AddPerson) -> None:
    browsers = {}
    for name in ("ann", "bob"):
        add(name, "app:full")
        browsers[name] = Browser(keyed)
        browsers[name].sign_in(name)
    row = issued(browsers["ann"], "session/tokens")["row"]
    assert browsers["bob"]("GET", "session/tokens").json["rows"] == []
    assert browsers["bob"]("DELETE", f"session/tokens/{row['id']}").status == 404
    assert browsers["bob"]("GET", "tokens").status == 403
    assert browsers["bob"]("DELETE", f"tokens/{row['id']}").status == 403
    assert browsers["ann"]("GET", "session/tokens").json["rows"] == [row]
    assert browsers["ann"]("DELETE", f"session/tokens/{row['id']}").status == 200


@pytest.mark.parametrize("level", ["full", "read"])
def test_a_revoked_token_is_refused_at_once(level: str, admin: Browser, keyed: Gateway) -> None:
    body = issued(admin, level=level)
    assert keyed("GET", READ_CALL, headers=by(body["token"])).status == 200
    revoked = admin("DELETE", f"tokens/{body['row']['id']}")
    assert revoked.status == 200
    assert revoked.json["revoked_by"] == "root"
    assert keyed("GET", READ_CALL, headers=by(body["token"])).status == 401
    assert admin("GET", "tokens").json["rows"][0]["revoked_at"] is not None
    assert admin("DELETE", "tokens/999").status == 404


def test_a_token_is_not_marked_as_revoked_while_it_is_not(
    admin: Browser, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = issued(admin)["row"]

    async def fail(*given: Any) -> None:
        raise TimeoutError

    monkeypatch.setattr("admin_ui.tokens.services._revoke", fail)
    assert admin("DELETE", f"tokens/{row['id']}").status == 503
    assert admin("GET", "tokens").json["rows"][0]["revoked_at"] is None


def test_the_last_use_is_written_together_once_a_minute_and_for_a_list(
    admin: Browser, keyed: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = issued(admin, role="app")
    used = IssuedToken.objects.filter(pk=body["row"]["id"])
    written: list[str] = []
    monkeypatch.setattr(UsedTokens, "_write_apart", lambda self: written.append("once"))
    for _ in range(3):
        keyed("GET", READ_CALL, headers=by(body["token"]))
    assert written == []
    assert used.get().used_at_ms is None, "no caller waits for the database"
    row = admin("GET", "tokens").json["rows"][0]
    assert row["used_at"] == used.get().used_at_ms
    assert row["used_at"] >= row["created_at"]
    uses = keyed.clusters.part(UsedTokens)
    uses._next_s = 0.0
    for _ in range(3):
        uses.note("x")
    for thread in threading.enumerate():
        if thread.name == "used tokens":
            thread.join()
    assert written == ["once"]


def test_without_a_key_no_token_is_issued_and_the_page_knows_why(
    door: Gateway, browser: Browser, root: Any
) -> None:
    browser.sign_in("root")
    listed = browser("GET", "tokens").json
    assert "token_signing_key" in listed["obstacle"]
    body = {"name": "job", "role": "app", "level": "full", "expires_in_s": None}
    answer = browser("POST", "tokens", body)
    assert (answer.status, answer.json["reason"]) == (422, listed["obstacle"])
    assert not IssuedToken.objects.exists()


async def test_a_socket_has_the_level_of_its_token(keyed: Gateway) -> None:
    path = "/ws/v2/producer/persistent/t/n/p"
    token = signed(gateway_role="root", gateway_level="operate")
    pair = await SocketPair(keyed.application, path, headers=by(token)).opened()
    assert pair.response is not None
    assert pair.response.status_code == 403
    assert "at level operate" in (pair.response.body or b"").decode()
    await pair.hang_up()


def test_levels_of_tokens_are_those_of_sessions() -> None:
    assert set(AccessLevel) == {"full", "operate", "read"}
    assert jws.TOKEN_ID.fullmatch("ab" * issued_tokens.ID_BYTES)

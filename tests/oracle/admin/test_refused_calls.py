"""REST calls of a stranger and of a consumer, at Apache's broker and at ours: neither does what the other refuses."""

import base64
import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bench.contenders import apache, apache_missing
from tests.oracle.servers import LEAN_PEER
from tests.support.access.callers import KEY, token
from tests.support.instance import running_instance
from tests.unit.access import test_rest_rights as rest

SECRET = "data:;base64," + base64.b64encode(KEY).decode()
SETUP = "setup"
"""The role of callers without credentials, who set both sides up."""
THEIRS = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "authenticationProviders": "org.apache.pulsar.broker.authentication.AuthenticationProviderToken",
    "tokenSecretKey": SECRET,
    "anonymousUserRole": SETUP,
    "superUserRoles": SETUP,
}
OURS = {
    "MAGNETAR_AUTHENTICATION_ENABLED": "true",
    "MAGNETAR_AUTHORIZATION_ENABLED": "true",
    "MAGNETAR_AUTHENTICATION_PROVIDERS": "token",
    "MAGNETAR_TOKEN_SECRET_KEY": SECRET,
    "MAGNETAR_ANONYMOUS_USER_ROLE": SETUP,
    "MAGNETAR_SUPER_USER_ROLES": SETUP,
}
VALUES = {
    "tenant": "t",
    "namespace": "n",
    "topic": "p",
    "cluster": "standalone",
    "subName": "s",
    "subscription": "s",
    "partition": "0",
    "bundle": "0x00000000_0x40000000",
    "expireTimeInSeconds": "3600",
    "timestamp": "1",
    "ledgerId": "1",
    "entryId": "0",
    "numMessages": "1",
}
"""Values in paths; others are a word."""
PREPARED: tuple[tuple[str, str, Any], ...] = (
    ("PUT", "/admin/v2/tenants/t", {"adminRoles": ["own"], "allowedClusters": ["standalone"]}),
    ("PUT", "/admin/v2/namespaces/t/n", None),
    ("POST", "/admin/v2/namespaces/t/n/permissions/consumer", ["consume"]),
    ("PUT", "/admin/v2/persistent/t/n/p", None),
    ("PUT", "/admin/v2/persistent/t/n/p/subscription/s", None),
)
DONE_BY_APACHE = {("PUT", "/admin/v2/persistent/{tenant}/{namespace}/{topic}/properties")}
"""Calls that Apache's broker does for any role, at least without a body, and ours refuses."""
REFUSED = (401, 403)
ANSWER_S = 20
NO_ANSWER = 599


class Caller:
    """Calls of one side's REST interface by roles."""

    def __init__(self, http: str) -> None:
        self._http = http

    def status(self, method: str, path: str, role: str = "", body: Any = None) -> int:
        """Return the status of a call by a role; without one by a caller who shows nothing."""
        headers = {"Content-Type": "application/json"}
        if role:
            headers["Authorization"] = f"Bearer {token(role)}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._http + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_S) as reply:
                return int(reply.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code
        except TimeoutError:  # Apache leaves a few calls without a body unanswered
            return NO_ANSWER

    def prepare(self) -> None:
        for method, path, body in PREPARED:
            status = self.status(method, path, body=body)
            assert status in (200, 204, 409), (method, path, status)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Caller, Caller]]:
    """(Apache's, ours), with rights on; skipped where Apache cannot be had."""
    reason = apache_missing()
    if reason is not None:
        pytest.skip(f"Apache Pulsar is not at hand: {reason}")
    work: Path = tmp_path_factory.mktemp("refusals")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in LEAN_PEER.items():
            patch.setenv(name, value)
        with apache(work, THEIRS) as theirs, running_instance(work / "ours", **OURS) as ours:
            callers = (Caller(theirs.http), Caller(ours.http))
            for caller in callers:
                caller.prepare()
            yield callers


def concrete(template: str) -> str:
    return re.sub(r"{(\w+)}", lambda name: VALUES.get(name[1], "word"), template)


@pytest.mark.timeout(900)
def test_no_side_does_for_a_role_what_the_other_refuses(both: tuple[Caller, Caller]) -> None:
    theirs, ours = both
    rows = [row for row in filter(rest.built, rest.all_rows()) if row[1].startswith("/admin/v2/")]
    apart, alike = [], 0
    for role in ("stranger", "consumer"):
        for method, template, _ in rows:
            path = concrete(template)
            statuses = theirs.status(method, path, role), ours.status(method, path, role)
            refused = [status in REFUSED for status in statuses]
            alike += all(refused)
            done = [status < 300 for status in statuses]
            known = (method, template) in DONE_BY_APACHE
            if (refused[0] and done[1]) or (refused[1] and done[0] and not known):
                apart.append((role, method, template, *statuses))
    assert apart == []
    assert alike > 500

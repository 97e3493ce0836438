"""The audit log records the role of an identified caller, and nothing of one that is not known."""

from typing import Any

from admin_ui.models import AuditEntry
from tests.support.access.callers import bearer, by_token
from tests.support.admin.gateway_client import Gateway

TENANT = "/admin/v2/tenants/t1"
BODY = {"allowedClusters": ["standalone"]}


def actors() -> list[str]:
    return [entry.actor for entry in AuditEntry.objects.all()]


def test_a_change_is_recorded_under_the_callers_role(call: Gateway, settings: Any) -> None:
    settings.IDENTITY = by_token()
    assert call("PUT", TENANT, BODY, headers=bearer("app")).status == 204
    assert actors() == ["app"]


def test_a_caller_that_is_not_known_leaves_no_entry(call: Gateway, settings: Any) -> None:
    settings.IDENTITY = by_token()
    assert call("PUT", TENANT, BODY).status == 401
    assert call("PUT", TENANT, BODY, headers={"authorization": "Bearer bad"}).status == 401
    assert actors() == []

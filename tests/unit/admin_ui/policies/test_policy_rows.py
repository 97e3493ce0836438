"""Rows of policies have calls that do what the console does; ``tests/golden/policies`` has them as commands.

The commands of each case are those of the front end (``policy-commands.test.ts`` renders them from the calls), its
request is the one that pulsar-admin 4.0.8 sends for its command (``tests/oracle/admin/test_policy_tools.py``).
"""

import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from admin_ui.policies.selectors import SHOWN, PolicyValues, row
from engine.tenancy.policies.policy import Level
from engine.tenancy.policies.table import BY_NAME, POLICIES

GOLDEN = Path(__file__).parents[3] / "golden" / "policies" / "tool_calls.jsonl"
GROUPS = [json.loads(line) for line in GOLDEN.read_text().splitlines()]
"""The calls of each policy at each level, and cases: values (null: removed) with their commands."""
PARENTS = {
    Level.NAMESPACE: "/admin/v2/namespaces/shop/orders",
    Level.TOPIC: "/admin/v2/persistent/shop/orders/t",
}
UNKNOWN = PolicyValues(None, None, None, None, Level.BROKER)


def test_every_shown_policy_has_commands_to_set_and_remove_it() -> None:
    shown = [
        (policy.name, level.value)
        for policy in POLICIES
        for level in PARENTS
        if policy in SHOWN and policy.route_at(level) is not None
    ]
    assert [(group["policy"], group["level"]) for group in GROUPS] == shown
    for group in GROUPS:
        values = [case["value"] for case in group["cases"]]
        assert None in values
        assert len(values) > 1, group["policy"]


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: f"{group['policy']}-{group['level']}")
def test_a_row_has_its_calls(group: dict[str, Any]) -> None:
    shown = row(BY_NAME[group["policy"]], Level(group["level"]), UNKNOWN)
    calls = {"rest": shown["rest"], "commands": shown["commands"]}
    assert json.loads(json.dumps(calls)) == group["calls"]


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: f"{group['policy']}-{group['level']}")
def test_pulsar_admin_sends_the_value_that_the_console_would_store(group: dict[str, Any]) -> None:
    policy, level = BY_NAME[group["policy"]], Level(group["level"])
    route = policy.route_at(level)
    assert route is not None
    for case in group["cases"]:
        if case["request"] is None:
            assert "why" in case["pulsarAdmin"]
            continue
        method, target, *body = case["request"]
        at, query = urlsplit(target), parse_qs(urlsplit(target).query)
        assert at.path == f"{PARENTS[level]}/{route.path}"
        assert parse_qs(route.query).items() <= query.items()
        if case["value"] is not None:
            assert method == route.method
            (given,) = query[route.value_query] if route.value_query else body
            assert policy.read(given) == policy.read(case["value"])
        elif route.removal is not None and not body:
            assert method == route.removal.method
        else:
            assert body[0] in policy.nothing

"""Conditions of rules: what is refused, what is stored, and their words."""

from typing import Any

import pytest

from engine.base.errors import InvalidField
from gateway.alerts.definitions import FIGURES, Definition, RuleKind, RuleScope, amount

TOPIC = "persistent://t/n/a"


@pytest.mark.parametrize(
    ("given", "tenant", "field"),
    [
        ({"kind": "topic", "figure": "nothing"}, "", "figure"),
        ({"kind": "topic"}, "", "figure"),
        ({"kind": "attention", "figure": "backlog"}, "", "figure"),
        ({"kind": "totals", "figure": "backlog", "scope": TOPIC}, "", "scope"),
        ({"kind": "link", "figure": "backlog", "scope": "t"}, "", "scope"),
        ({"kind": "bookie", "figure": "usage", "scope": "t"}, "", "scope"),
        ({"kind": "bookie", "figure": "usage"}, "t", "scope"),
        ({"kind": "bookie", "figure": "backlog"}, "", "figure"),
        ({"kind": "topic", "figure": "backlog", "part": "b"}, "", "part"),
        ({"kind": "topic", "figure": "backlog", "scope": TOPIC + "-partition-1"}, "", "scope"),
        ({"kind": "topic", "figure": "backlog", "scope": "a b/c"}, "", "scope"),
        ({"kind": "topic", "figure": "backlog"}, "t", "scope"),
        ({"kind": "topic", "figure": "backlog", "scope": "u/n"}, "t", "scope"),
        ({"kind": "link", "figure": "backlog"}, "t", "scope"),
        ({"kind": "topic", "figure": "backlog", "causes": ["held"]}, "", "causes"),
        ({"kind": "topic", "figure": "backlog", "remote": "eu"}, "", "remote"),
        ({"kind": "topic", "figure": "backlog", "subscription": "s"}, "", "subscription"),
        ({"kind": "subscription", "figure": "backlog", "op": "below"}, "", "subscription"),
        ({"kind": "topic", "figure": "backlog", "threshold": float("nan")}, "", "threshold"),
        ({"kind": "attention", "causes": ["x" * 65]}, "", "causes"),
    ],
)
def test_a_wrong_condition_is_refused_with_its_field(
    given: dict[str, Any], tenant: str, field: str
) -> None:
    with pytest.raises(InvalidField) as refused:
        Definition.checked(given, tenant)
    assert refused.value.field == field


def test_a_condition_is_stored_whole() -> None:
    given = {"kind": "attention", "scope": TOPIC, "subscription": "s", "causes": ["slow", "held"]}
    definition = Definition.checked(given, "t")
    assert Definition.checked(definition.stored(), "t") == definition
    assert definition.words == f"held, slow in {TOPIC}, subscription s needs attention"


def test_amounts_have_units() -> None:
    of_topics = FIGURES[RuleKind.TOPIC]
    assert amount(1_500, of_topics["backlog"]) == "1,500 messages"
    assert amount(2.5e9, of_topics["storage_bytes"]) == "2.5 GB"
    assert amount(12_500, of_topics["bytes_rate_in"]) == "12.5 kB/s"
    assert amount(300, of_topics["oldest_age"]) == "5 min"
    assert amount(0.25, of_topics["msg_rate_in"]) == "0.25 messages/s"


def test_a_scope_has_the_topics_of_its_place_alone() -> None:
    assert RuleScope.parse("").has(TOPIC)
    assert RuleScope.parse("t").has(TOPIC)
    assert RuleScope.parse("t/n").has(TOPIC)
    assert not RuleScope.parse("t/n").has("persistent://t/n2/a")
    assert not RuleScope.parse(TOPIC).has(TOPIC + "b")

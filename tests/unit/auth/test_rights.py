"""A declaration that leaves something out does not construct."""

from typing import Any

import pytest

from engine.auth.actions import KINDS, WITHOUT_RESOURCE, Action
from engine.auth.resource_names import CLUSTER, SubscriptionName, TenantName
from engine.auth.rights import OPENED, SUPERUSER, Right, all_of
from engine.base.names import TopicName

TOPIC = TopicName.parse("persistent://a/b/t")


def test_a_right_on_a_resource_states_its_kind_and_how_a_call_names_it() -> None:
    right: Right[Any] = Right(Action.LOOKUP, TopicName, lambda call: TOPIC)
    assert right.of(None) == (TOPIC,)
    for wrong in (
        (Action.LOOKUP,),
        (Action.LOOKUP, TopicName),
        (Action.LOOKUP, TenantName, lambda call: TenantName("a")),
        (Action.PUBLIC, TopicName, lambda call: TOPIC),
        (Action.SUPERUSER, TopicName, lambda call: TOPIC),
    ):
        with pytest.raises(TypeError):
            Right(*wrong)


def test_a_right_without_a_resource_is_about_the_cluster() -> None:
    assert SUPERUSER.of("call") == (CLUSTER,)


def test_a_call_without_a_right_is_refused() -> None:
    assert all_of(OPENED) == (OPENED,)
    for wrong in ((), None, (None,)):
        with pytest.raises(TypeError, match="states the rights"):
            all_of(wrong)  # type: ignore[arg-type]


def test_each_action_has_its_kinds_of_resource() -> None:
    assert KINDS.keys() == set(Action)
    assert {action for action, kinds in KINDS.items() if not kinds} | {
        Action.SUPERUSER
    } == WITHOUT_RESOURCE


def test_resources_are_named_in_refusals() -> None:
    assert str(SubscriptionName(TOPIC, "s")) == "subscription s of persistent://a/b/t"
    assert str(TenantName.parse("a")) == "a"

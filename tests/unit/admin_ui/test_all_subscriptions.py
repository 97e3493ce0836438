"""Filters and orders of the list of all subscriptions."""

import pytest

from admin_ui.params import OLDER_MAX_S
from admin_ui.subscriptions.all_subscriptions import chosen_of
from engine.base.errors import InvalidField


def test_the_oldest_are_first_without_a_choice() -> None:
    chosen = chosen_of({})
    assert (chosen.sort, chosen.older_s, chosen.late, chosen.attention) == (
        *("-oldest_age", 0, False, ""),
    )


def test_filters_are_those_of_the_query() -> None:
    chosen = chosen_of({"q": "a", "tenant": "t", "older_s": "60", "late": "true", "sort": "topic"})
    assert (chosen.q, chosen.tenant, chosen.older_s, chosen.late) == ("a", "t", 60, True)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sort", "age"),
        ("sort", "--topic"),
        ("domain", "both"),
        ("attention", "stuck"),
        ("late", "false"),
        ("older_s", "-1"),
        ("older_s", str(OLDER_MAX_S + 1)),
        ("older_s", "1h"),
    ],
)
def test_a_value_that_is_not_understood_is_refused_by_its_name(name: str, value: str) -> None:
    with pytest.raises(InvalidField) as refused:
        chosen_of({name: value})
    assert refused.value.field == name

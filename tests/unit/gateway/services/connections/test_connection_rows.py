"""Connections are filtered, ordered and counted by what they have in common."""

from typing import Any

import pytest

from engine.admin.api.brokers import CONNECTION_COLUMNS
from gateway.services.connections import connection_rows
from gateway.services.connections.connection_rows import (
    FIELDS,
    GROUPINGS,
    ConnectionTable,
    Filter,
)

EMPTY: dict[str, Any] = dict.fromkeys(CONNECTION_COLUMNS, 0) | {
    "version": "",
    "proxy_version": "",
    "role": None,
    "original_role": None,
    "listener": "",
    "application": "",
}


def table_of(*rows: dict[str, Any], broker: str = "b:1") -> ConnectionTable:
    cells = [
        list((EMPTY | {"number": n, "address": f"10.0.0.{n}:5{n:03}"} | row).values())
        for n, row in enumerate(rows, 1)
    ]
    return ConnectionTable(7, {broker: cells}, {}, 1)


CLIENTS = table_of(
    {"version": "Pulsar-Java-v2.10.6", "role": "billing", "producers": 2, "msg_rate_in": 1500},
    {"version": "Pulsar-Java-v2.9.1-shop", "role": "shop", "consumers": 1},
    {"version": "Pulsar-Java-v20.1", "role": "shop", "consumers": 3, "application": "cart"},
    {"version": "Pulsar-CPP-v4.2.0", "role": "gate", "original_role": "shop"},
)


def numbers(**chosen: str) -> list[int]:
    return [row.number for row in CLIENTS.selected(Filter(**chosen))]


@pytest.mark.parametrize(
    ("chosen", "passing"),
    [
        ({}, [1, 2, 3, 4]),
        ({"version": "2"}, [1, 2]),
        ({"version": "2.1"}, []),
        ({"version": "2.10."}, [1]),
        ({"library": "Pulsar-CPP"}, [4]),
        ({"q": "SHOP 10.0.0.2"}, [2]),
        ({"role": "shop"}, [2, 3, 4]),
        ({"application": "cart"}, [3]),
        ({"proxy": "yes"}, [4]),
        ({"proxy": "no"}, [1, 2, 3]),
        ({"kind": "neither"}, [4]),
        ({"kind": "producer"}, [1]),
        ({"host": "10.0.0.2"}, [2]),
        ({"broker": "other"}, []),
    ],
)
def test_filters_are_joined_and_versions_match_by_whole_parts(
    chosen: dict[str, str], passing: list[int]
) -> None:
    assert numbers(sort="address", **chosen) == passing


def test_a_proxy_acts_for_the_role_of_its_client() -> None:
    (row,) = CLIENTS.selected(Filter(proxy="yes"))
    assert (row.role, row.proxy) == ("shop", "gate")


def test_versions_are_ordered_by_number_and_equals_by_connection() -> None:
    assert numbers(sort="version") == [4, 2, 1, 3]
    assert numbers(sort="-consumers") == [3, 2, 1, 4]


@pytest.mark.parametrize("field", FIELDS)
def test_every_field_orders_rows_in_both_directions(field: str) -> None:
    assert sorted(numbers(sort=field)) == sorted(numbers(sort=f"-{field}")) == [1, 2, 3, 4]


def test_groups_count_connections_with_their_producers_and_consumers() -> None:
    assert CLIENTS.groups(Filter(), "role")[0] == {
        "library": "",
        "value": "shop",
        "connections": 3,
        "producers": 0,
        "consumers": 4,
    }
    (group, _) = CLIENTS.groups(Filter(version="2"), "version")
    assert (group["library"], group["value"], group["connections"]) == (
        *("Pulsar-Java", "2.10.6", 1),
    )


@pytest.mark.parametrize("grouping", GROUPINGS)
def test_every_grouping_counts_each_connection_once(grouping: str) -> None:
    groups = CLIENTS.groups(Filter(), grouping)
    assert sum(group["connections"] for group in groups) == 4


def test_rates_are_per_second() -> None:
    assert CLIENTS.selected(Filter(role="billing"))[0].row()["msg_rate_in"] == 1.5


def test_a_window_makes_rows_of_itself_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(*({"msg_rate_in": n % 7, "role": f"role {n % 5}"} for n in range(1_000)))
    made: list[Any] = []
    real = connection_rows.connection_of
    monkeypatch.setattr(connection_rows, "connection_of", lambda *of: made.append(of) or real(*of))
    for sort in ("-msg_rate_in", "role", "version"):
        for chosen in (Filter(sort=sort), Filter(sort=sort, q="10.0", role="role 2")):
            made.clear()
            window = table.selected(chosen, 40, 60)
            table.groups(chosen, "role")
            assert len(window) == len(made) == 20
            assert window == table.selected(chosen)[40:60]


def test_an_order_of_a_table_is_sorted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(*({"unacked": n % 7} for n in range(200)))
    sorted_orders: list[str] = []
    real = ConnectionTable._rank

    def rank(own: ConnectionTable, field: str) -> Any:
        sorted_orders.append(field)
        return real(own, field)

    monkeypatch.setattr(ConnectionTable, "_rank", rank)
    chosen = Filter(sort="-unacked")
    for start in range(0, 200, 50):
        table.selected(chosen, start, start + 50)
    assert table.count(chosen) == 200
    assert sorted_orders == ["unacked"]

"""Lists are sorted, filtered and cut by the server: all by one parameter, and records by the database's indices."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import connection

from admin_ui.alerts.rows import FIRING_ORDER
from admin_ui.audit.entry_search import ORDER as AUDIT_ORDER
from admin_ui.calls import ClusterView
from admin_ui.lists.record_order import RecordOrder, sorted_rows
from admin_ui.models import AuditEntry, ChangeItem, ChangeSet, ChangeState, ItemState
from admin_ui.resources import RESOURCES
from gateway.access.models import IssuedToken
from gateway.alerts.models import AlertFiring, AlertRule, FiringState
from gateway.copies.models import CopyJob, CopyState
from gateway.jobs.models import JobRun, RunState
from gateway.people.models import Person
from tests.support.access.callers import SUPERUSER, bearer, by_token
from tests.support.admin.gateway_client import Gateway, call, cluster, engine, gateway

__all__ = ["call", "cluster", "engine", "gateway"]
CONSOLE = "/api/v1"
PATHS = {
    "<seg:remote>": "east",
    "<seg:role>": "app",
    "<seg:tenant>": "public",
    "<str:set_id>": "s1",
}
FILES = {"downloadRunFile", "exportTopics"}
"""Calls that answer a part of a file, in its order."""
NO_WINDOW = {"exportTopics"}
"""Calls with an order that answer everything."""
CLOSED = {"listOwnTokens"}
"""Calls that only a session may make."""


def windowed() -> Iterator[tuple[str, str, set[str]]]:
    """Yield operation, path and names of the parameters of each call that answers a window of a list."""
    for resource in RESOURCES:
        for route, view in resource.routes.items():
            listing = view.calls.get("get")
            names = {item.name for item in listing.parameters} if listing is not None else set()
            if listing is None or "offset" not in names:
                continue
            for part, value in PATHS.items():
                route = route.replace(part, value)
            below = f"{CONSOLE}/clusters/standalone" if issubclass(view, ClusterView) else CONSOLE
            yield listing.operation, f"{below}/{route}", names


LISTS = {operation: (path, names) for operation, path, names in windowed()}


def test_every_list_with_a_window_can_be_sorted() -> None:
    assert len(LISTS) > 15
    fixed = {operation for operation, (_, names) in LISTS.items() if "sort" not in names}
    assert fixed == FILES & LISTS.keys()


@pytest.fixture
def served(call: Gateway, monkeypatch: pytest.MonkeyPatch) -> Gateway:
    monkeypatch.setattr(settings, "IDENTITY", by_token(authorization_enabled=True))
    ChangeSet.objects.create(
        id="s1", cluster="standalone", kind="delete-topics", created_by="a", created_at=1
    )
    return call


@pytest.mark.parametrize("operation", sorted(LISTS.keys() - FILES - CLOSED))
def test_a_field_that_a_list_does_not_have_is_refused_with_those_that_it_has(
    served: Gateway, operation: str
) -> None:
    path, _ = LISTS[operation]
    answer = served("GET", f"{path}?sort=-no_such_field", headers=bearer(SUPERUSER))
    assert answer.status == 400, answer.body
    assert answer.json["field"] == "sort"
    assert "must be one of " in answer.json["reason"]
    assert "'-' in front" in answer.json["reason"]


Make = Callable[[], None]


def people() -> None:
    users = get_user_model()
    for number, name in enumerate(("dora", "ann", "bob", "carl")):
        made = users.objects.create(username=name, is_active=name != "bob")
        if name != "carl":  # a user of an older release, without a record
            Person.objects.create(user=made, display_name=f"D {9 - number}")


def audit() -> None:
    for number, status in enumerate((200, None, 404, 200, None, 503)):
        AuditEntry.objects.create(
            at_ms=1_000 + number,
            actor="ab"[number % 2],
            operation=f"op{number % 3}",
            role="r",
            tenant=f"t{number % 2}",
            status=status,
        )


def runs() -> None:
    for number, finished in enumerate((None, 30, 10, None, 20)):
        JobRun.objects.create(
            id=f"run{number}",
            analysis="topic-profile",
            kind="cluster",
            title=f"title {number % 2}",
            target=f"{9 - number}",
            parameters={},
            state=RunState.SUCCEEDED if finished else RunState.FAILED,
            created_at=5 - number,
            finished_at=finished,
            created_by="ba"[number % 2],
        )


def copies() -> None:
    for number, finished in enumerate((None, 30, 10)):
        CopyJob.objects.create(
            id=f"copy{number}",
            mode="copy" if number else "move",
            source=f"persistent://public/default/s{9 - number}",
            target=f"persistent://public/default/t{number % 2}",
            rate=1,
            plan={"targets": {}, "sources": []},
            state=CopyState.SUCCEEDED if finished else CopyState.STOPPED,
            created_at=number,
            finished_at=finished,
            created_by="x",
        )


def firings() -> None:
    for number, ended in enumerate((None, 30, 10, None)):
        AlertFiring.objects.create(
            cluster="standalone",
            rule_id=number,
            rule_name=f"rule {number % 2}",
            severity=("warning", "error")[number % 2],
            object=str(number),
            object_hash=str(number),
            title=f"title {number}",
            state=FiringState.ENDED if ended else FiringState.FIRING,
            since=9 - number,
            began_at=None if number == 2 else number,
            ended_at=ended,
        )


def rules() -> None:
    for number in range(3):
        AlertRule.objects.create(
            cluster="standalone",
            name=f"rule {9 - number}",
            severity="warning",
            definition={"kind": "attention"},
            for_s=0,
            created_at=number,
            changed_at=number % 2,
            created_by="a",
        )


def change_sets() -> None:
    for number, state in enumerate(
        (ChangeState.PLANNED, ChangeState.FINISHED, ChangeState.PLANNED)
    ):
        ChangeSet.objects.create(
            id=f"set{number}",
            cluster="standalone",
            kind="delete-topics",
            state=state,
            created_by=f"{9 - number}",
            created_at=10 + number,
        )


def change_items() -> None:
    for number, state in enumerate((ItemState.DONE, ItemState.FAILED, ItemState.DONE)):
        topic = f"persistent://public/default/t{9 - number}"
        ChangeItem.objects.create(change_set_id="s1", topic=topic, state=state)


def tokens() -> None:
    for number, expires in enumerate((None, 30, 10)):
        IssuedToken.objects.create(
            token_id=str(number),
            name=f"n{9 - number}",
            role="r",
            level="full",
            created_by="a",
            created_at_ms=number,
            expires_at_ms=expires,
        )


def value_in(row: dict[str, Any], field: str) -> Any:
    """Return what a row shows of a field."""
    names = {"created_at": ("created_at", "at"), "source": ("topic",), "owner": ("owner",)}
    for name in names.get(field, (field,)):
        if name in row:
            # A user of an older release has no record, and shows empty texts.
            return None if row[name] == "" else row[name]
    pytest.fail(f"{field} is not shown in {row}")


HIDDEN = {
    "created_at": ("listAudit",),
    "changed_at": ("listAlertRules",),
    "place": ("listChangeItems",),
}
"""Fields that rows do not show."""


@pytest.mark.parametrize(
    ("operation", "make"),
    [
        ("listPeople", people),
        ("listAudit", audit),
        ("listRuns", runs),
        ("listCopies", copies),
        ("listAlertFirings", firings),
        ("listAlertRules", rules),
        ("listChangeSets", change_sets),
        ("listChangeItems", change_items),
        ("listTokens", tokens),
    ],
)
def test_records_are_listed_in_each_order_and_window_by_window(
    served: Gateway, operation: str, make: Make
) -> None:
    make()
    path, _ = LISTS[operation]

    def page(query: str) -> Any:
        answer = served("GET", f"{path}?{query}", headers=bearer(SUPERUSER))
        assert answer.status == 200, answer.body
        return answer.json

    fields = _fields(operation)
    assert len(fields) > 1
    total = page("limit=1000")["total"]
    for sort in (*fields, *(f"-{field}" for field in fields)):
        whole = page(f"sort={sort}&limit=1000")["rows"]
        assert len(whole) == total > 2
        field, falls = sort.removeprefix("-"), sort.startswith("-")
        if operation not in HIDDEN.get(field, ()):
            shown = [value_in(row, field) for row in whole]
            known = [value for value in shown if value is not None]
            assert shown == sorted(known, reverse=falls) + [None] * (len(shown) - len(known)), sort
        parts = [page(f"sort={sort}&limit=2&offset={start}") for start in range(0, total + 2, 2)]
        assert [row for part in parts for row in part["rows"]] == whole, sort
        assert [part["offset"] for part in parts] == list(range(0, total + 2, 2))
        assert {(part["total"], part["limit"]) for part in parts if part["rows"]} == {(total, 2)}


def _fields(operation: str) -> list[str]:
    for resource in RESOURCES:
        for view in resource.routes.values():
            listing = view.calls.get("get")
            if listing is not None and listing.operation == operation:
                (sort,) = [item for item in listing.parameters if item.name == "sort"]
                return [name for name in sort.enum or () if not name.startswith("-")]
    raise AssertionError(operation)


@pytest.mark.parametrize(
    ("operation", "make", "query", "count"),
    [
        ("listPeople", people, "q=D", 3),
        ("listRuns", runs, "state=failed", 2),
        ("listCopies", copies, "state=succeeded", 2),
        ("listCopies", copies, "mode=move", 1),
        ("listAlertFirings", firings, "severity=error", 2),
        ("listAlertFirings", firings, "state=ended&q=TITLE%201", 1),
        ("listAlertRules", rules, "q=9", 1),
        ("listChangeSets", change_sets, "state=finished", 1),
        ("listChangeItems", change_items, "q=t9", 1),
        ("listTokens", tokens, "q=n9", 1),
        ("listTokens", tokens, "role=r", 3),
        ("listTokens", tokens, "role=R", 0),
    ],
)
def test_filters_choose_the_rows_that_are_sorted(
    served: Gateway, operation: str, make: Make, query: str, count: int
) -> None:
    make()
    path, _ = LISTS[operation]
    answer = served("GET", f"{path}?{query}", headers=bearer(SUPERUSER)).json
    assert (answer["total"], len(answer["rows"])) == (count, count)


@pytest.mark.parametrize(
    ("operation", "query"),
    [
        ("listRuns", "state"),
        ("listCopies", "state"),
        ("listCopies", "mode"),
        ("listAlertFirings", "severity"),
        ("listAlertFirings", "state"),
        ("listChangeSets", "kind"),
        ("listChangeItems", "state"),
    ],
)
def test_a_value_that_a_filter_does_not_have_is_refused_with_those_that_it_has(
    served: Gateway, operation: str, query: str
) -> None:
    path, _ = LISTS[operation]
    answer = served("GET", f"{path}?{query}=no-such", headers=bearer(SUPERUSER))
    assert (answer.status, answer.json["field"]) == (400, query)
    assert "must be one of " in answer.json["reason"]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("order", "records"),
    [
        (AUDIT_ORDER, AuditEntry.objects.all()),
        (FIRING_ORDER, AlertFiring.objects.filter(cluster="c", state=FiringState.ENDED)),
    ],
    ids=["audit", "firings"],
)
def test_large_lists_are_sorted_by_indices(order: RecordOrder, records: Any) -> None:
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:  # it sorts small tables by itself
            cursor.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off")
    for sort in order.parameter.enum or ():
        for query in order.queries(records, sort):
            plan = query[:100].explain()
            assert "TEMP B-TREE" not in plan, sort
            assert "Sort" not in plan, sort


def test_rows_in_memory_have_unknown_values_last_and_equal_ones_as_they_were() -> None:
    rows = [
        {"name": "a", "n": 1},
        {"name": "b", "n": None},
        {"name": "c", "n": 2},
        {"name": "d", "n": 1},
    ]

    def names(sort: str) -> str:
        return "".join(
            row["name"] for row in sorted_rows(rows, sort, lambda row, field: row[field])
        )

    assert names("n") == "adcb"
    assert names("-n") == "cadb"
    assert names("-name") == "dcba"

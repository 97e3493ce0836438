"""Lists of the console's API are answered window by window, or are of a small set whose bound is stated here."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from rest_framework import serializers

from admin_ui.calls import Call, ClusterView
from admin_ui.models import ChangeSet
from admin_ui.resources import RESOURCES
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
CLOSED = {"listOwnTokens"}
"""Calls that only a session may make."""
WINDOW = {"offset", "limit", "sort"}
BOUNDED = {
    # parts of the cluster, which administrators add one by one
    **dict.fromkeys(("listAddresses", "listBrokers", "listBookies"), "servers of a cluster"),
    **dict.fromkeys(("getHealth", "getOverview"), "servers of a cluster, and the ten largest"),
    "getLoadBalance": "brokers, and the moves of one round of the balancer",
    **dict.fromkeys(("getGeo", "getGeoOfAll"), "remote clusters"),
    "getRepair": "workers, and the 100 ledgers with the oldest marks",
    "getBlastRadius": "numbers by replicas, and the 100 weakest ledgers",
    "listSettings": "settings of the program",
    "listAnalyses": "analyses of the program",
    "listConnectors": "connectors of the program",
    # records of people, with a stated maximum
    "listAlertChannels": "100 channels of a cluster, 20 of a tenant",
    "listAlertSilences": "500 silences of a cluster, 20 of a tenant",
    "listSchedules": "1000 schedules",
    "listViews": "500 views of a person",
    "getPayloadRules": "500 rules",
    "getPerson": "50 roles of a person",
    **dict.fromkeys(("listSessions", "listOwnSessions"), "open sessions of one person"),
    "getSession": "sign-in providers of the settings",
    # parts of one object
    "getTopic": "parts of one topic",
    "getTraces": "20 traces of a topic",
    "getTopicTiers": "the 500 newest ledgers of a topic",
    "getHeldSpace": "200 subscriptions of a topic",
    "getNamespaceHeldSpace": "100 topics, and 200 subscriptions",
    "listHolders": "rows, at most 1000 each",
    "listMessageHolders": "subscriptions of one topic",
    "lastChanges": "partitions of one topic",
    "getConnection": "clients of one connection",
    "getFunction": "instances of one function",
    "getFunctionLog": "instances of one function, lines at most 2000 each",
    **dict.fromkeys(("getNamespace", "getTopicPolicies"), "policies of the program"),
    **dict.fromkeys(("getAccess", "listGrants"), "roles that one place names"),
    "getAuditEntry": "16,384 characters of changes",
    "getRun": "files and places of one run",
    "compareRuns": "parameters and figures of two runs",
    "getRunLog": "the end of a log",
    # windows of another kind, which begin where the one before ended
    "browseMessages": "limit, at most 200; goes on after a position",
    "groupDeadLetters": "500 groups; goes on after a position",
    "listSchemas": "limit; goes on before a version",
    "listMarks": "the 500 newest changes of a time",
    # files
    "exportTopics": "a file, sent in parts",
}
"""Calls that answer all rows of a list, or windows of another kind, with what bounds their answers."""


def listings() -> Iterator[tuple[str, Call, set[str]]]:
    """Yield path, call, and names of the parameters of each GET that answers a list."""
    for resource in RESOURCES:
        for route, view in resource.routes.items():
            listing = view.calls.get("get")
            if listing is None or not any(lists_of(listing)):
                continue
            for part, value in PATHS.items():
                route = route.replace(part, value)
            below = f"{CONSOLE}/clusters/standalone" if issubclass(view, ClusterView) else CONSOLE
            yield f"{below}/{route}", listing, {item.name for item in listing.parameters}


def fields_of(listing: Call) -> Iterator[tuple[str, Any]]:
    """Yield the members of an answer with their fields; the name is empty where the answer is a list itself."""
    shapes = listing.answer if isinstance(listing.answer, tuple) else (listing.answer,)
    for shape in shapes:
        made = shape() if isinstance(shape, type) else shape
        if isinstance(made, serializers.ListSerializer):
            yield "", made
        elif isinstance(made, serializers.Serializer):
            yield from made.fields.items()


def lists_of(listing: Call) -> list[str]:
    """Return the members of an answer that are lists of objects."""
    return [
        name or "-"
        for name, field in fields_of(listing)
        if isinstance(field, serializers.ListSerializer)
    ]


WINDOWED = {
    listing.operation: (path, listing, names)
    for path, listing, names in listings()
    if names >= WINDOW
}


def test_every_call_that_answers_a_list_has_a_window_or_a_stated_bound() -> None:
    others = {
        listing.operation: lists_of(listing)
        for _, listing, _ in listings()
        if listing.operation not in WINDOWED
    }
    assert others.keys() == BOUNDED.keys(), others
    assert all(BOUNDED.values())
    assert len(WINDOWED) > 15


@pytest.mark.parametrize("operation", sorted(WINDOWED))
def test_a_window_states_its_place_and_the_number_of_all_rows(operation: str) -> None:
    _, listing, _ = WINDOWED[operation]
    answered = {name for name, _ in fields_of(listing)}
    assert answered >= {"total", "offset", "limit", "rows"}


@pytest.mark.parametrize("operation", sorted(WINDOWED))
def test_a_list_with_windows_can_be_filtered(operation: str) -> None:
    _, listing, names = WINDOWED[operation]
    places = {item.name for item in listing.parameters if item.place == "path"}
    assert names - places - WINDOW, "it has no filter"


@pytest.mark.parametrize("operation", sorted(WINDOWED.keys() - CLOSED))
def test_a_window_of_no_size_or_beyond_the_largest_is_refused_by_its_name(
    call: Gateway, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    monkeypatch.setattr(settings, "IDENTITY", by_token(authorization_enabled=True))
    ChangeSet.objects.create(
        id="s1", cluster="standalone", kind="delete-topics", created_by="a", created_at=1
    )
    path, _, _ = WINDOWED[operation]
    for wrong in ("limit=0", "limit=1001", "limit=x", "offset=-1"):
        answer = call("GET", f"{path}?{wrong}", headers=bearer(SUPERUSER))
        assert (answer.status, answer.json["field"]) == (400, wrong.partition("=")[0]), wrong
        assert "a whole number from " in answer.json["reason"]

"""Racks of bookies by the console's API: set and removed exactly as previewed."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from admin_ui.models import AuditEntry
from engine.tenancy.resources.racks import all_bookies, get_racks, set_rack
from gateway.services.admin import brokers
from tests.support.admin.gateway_client import Answer, Gateway
from tests.unit.admin_ui.test_tenants import BenchLink, bench_link

API = "/api/v1/clusters/standalone/bookies"
Call = Callable[..., Answer]


@pytest.fixture
def link() -> Iterator[BenchLink]:
    with bench_link(brokers.ids) as made:
        yield made


@pytest.fixture
def call(link: BenchLink, transactional_db: None) -> Call:
    return Gateway(link.cluster)


@pytest.fixture
def bookie(link: BenchLink) -> str:
    [address] = link.run(lambda engine: all_bookies(engine.store))
    return address


def preview(call: Call, bookie: str, rack: str | None, **more: str) -> Any:
    answer = call("POST", f"{API}/{bookie}/rack", {"preview": True, "rack": rack, **more})
    assert answer.status == 200, answer.json
    return answer.json


def apply(call: Call, bookie: str, token: str) -> Answer:
    return call("POST", f"{API}/{bookie}/rack", {"token": token})


def set_directly(link: BenchLink, bookie: str, group: str, facts: dict[str, str]) -> None:
    """Set the bookie's rack as another tool does."""
    link.run(lambda engine: set_rack(engine.store, bookie, group, facts))


def racks(link: BenchLink) -> Any:
    return link.run(lambda engine: get_racks(engine.store))


def test_a_rack_is_set_and_removed_as_previewed(call: Call, link: BenchLink, bookie: str) -> None:
    previewed = preview(call, bookie, "/r1")
    expected = {"group": "default", "rack": "/r1", "hostname": ""}
    assert (previewed["before"], previewed["after"]) == (None, expected)
    assert (previewed["bookies"], previewed["without_rack"], previewed["racks"]) == (1, 0, 1)
    assert AuditEntry.objects.count() == 0, "a preview changes nothing"
    assert racks(link) == {}
    done = apply(call, bookie, previewed["token"]).json
    assert (done["before"], done["after"]) == (None, expected)
    assert racks(link) == {"default": {bookie: {"rack": "/r1"}}}
    entry = AuditEntry.objects.latest("pk")
    assert (entry.status, entry.target) == (200, f"{API}/{bookie}/rack")
    assert preview(call, bookie, "/r1")["token"] is None, "it is set already"
    back = preview(call, bookie, None)
    assert (back["after"], back["without_rack"], back["racks"]) == (None, 1, 0)
    assert apply(call, bookie, back["token"]).status == 200
    assert racks(link) == {}
    assert preview(call, bookie, None)["token"] is None, "there is no rack to remove"


def test_a_hostname_that_was_set_is_kept(call: Call, link: BenchLink, bookie: str) -> None:
    set_directly(link, bookie, "g1", {"rack": "/r1", "hostname": "h"})
    previewed = preview(call, bookie, "r2", group="g2")
    assert previewed["after"] == {"group": "g2", "rack": "r2", "hostname": "h"}
    assert apply(call, bookie, previewed["token"]).status == 200
    assert racks(link) == {"g2": {bookie: {"rack": "r2", "hostname": "h"}}}


def test_racks_that_differ_by_their_slash_are_one(call: Call, link: BenchLink, bookie: str) -> None:
    set_directly(link, "other:1", "default", {"rack": "/r1"})
    previewed = preview(call, bookie, "r1")
    assert (previewed["racks"], previewed["without_rack"]) == (1, 0)


def test_a_rack_that_was_set_since_the_preview_is_not_overwritten(
    call: Call, link: BenchLink, bookie: str
) -> None:
    previewed = preview(call, bookie, "/r1")
    set_directly(link, bookie, "default", {"rack": "/r9"})
    refused = apply(call, bookie, previewed["token"])
    assert (refused.status, "changed meanwhile" in refused.json["reason"]) == (409, True)
    assert racks(link) == {"default": {bookie: {"rack": "/r9"}}}


def test_invalid_racks_and_unknown_bookies_are_refused(call: Call, bookie: str) -> None:
    for field, value in (
        ("rack", "/a/b/c"),
        ("rack", "/a//b"),
        ("rack", "/"),
        ("rack", "r" * 201),
        ("group", ""),
    ):
        body = {"preview": True, "rack": "/r", field: value}
        refused = call("POST", f"{API}/{bookie}/rack", body)
        assert (refused.status, refused.json["field"]) == (400, field)
    assert call("POST", f"{API}/none:1/rack", {"preview": True, "rack": "/r"}).status == 404
    assert call("POST", f"{API}/{bookie}/rack", {"preview": True}).json["field"] == "rack"

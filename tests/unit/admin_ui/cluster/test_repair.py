"""Repair of ledgers by the console's API: what is marked, and each change exactly as previewed."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from admin_ui.repair import selectors
from engine.base.clock import SystemClock
from engine.ledger.ledger_metadata import LedgerMetadata, LedgerState, Segment, encode
from engine.metadata import paths
from engine.repair.decommissions import decommissions, request_decommission
from gateway.services.admin import brokers
from gateway.services.engine_link import Engine
from gateway.services.health.repair_watch import records_of
from tests.support.admin.gateway_client import Answer, Gateway
from tests.support.waiting import until_blocking
from tests.unit.admin_ui.test_tenants import BenchLink, bench_link

API = "/api/v1/clusters/standalone"
LOST = "lost:3181"
Call = Callable[..., Answer]
CUSTOM = {"pulsar/managed-ledger": b"public/default/persistent/t"}


async def filled(engine: Engine) -> None:
    """Store the cookie of a bookie that is not registered, and two ledgers of which it has copies."""
    await engine.store.create(paths.cookie(LOST), b"", make_parents=True)
    for ledger_id, state in ((701, LedgerState.CLOSED), (702, LedgerState.OPEN)):
        closed = state is LedgerState.CLOSED
        metadata = LedgerMetadata(
            *(2, 2, 2, (Segment(0, (LOST, "other:3181")),), state),
            last_entry=9 if closed else -1,
            length=5000 if closed else 0,
            custom=CUSTOM,
        )
        await engine.store.create(paths.ledger(ledger_id), encode(metadata), make_parents=True)


@pytest.fixture
def link() -> Iterator[BenchLink]:
    with bench_link(brokers.ids, filled) as made:
        yield made


@pytest.fixture
def call(link: BenchLink, transactional_db: None) -> Call:
    return Gateway(link.cluster)


def preview(call: Call, path: str, **more: Any) -> Any:
    answer = call("POST", f"{API}/{path}", {"preview": True, **more})
    assert answer.status == 200, answer.json
    return answer.json


def apply(call: Call, path: str, token: str) -> Answer:
    return call("POST", f"{API}/{path}", {"token": token})


def settled(call: Call, enough: Callable[[Any], bool]) -> Any:
    """Return the state of repair once it is enough."""
    answers: list[Any] = []

    def is_enough() -> bool:
        answer = call("GET", f"{API}/repair")
        answers.append(answer.json)
        return answer.status == 200 and enough(answer.json)

    until_blocking(is_enough, lambda: answers[-1])
    return answers[-1]


def test_marked_ledgers_are_shown_with_owner_size_and_worker(call: Call, link: BenchLink) -> None:
    assert settled(call, lambda body: body["lost"])["ledgers"] == 0

    async def mark(engine: Engine) -> None:
        records = records_of(engine.store)
        for ledger_id in (701, 702):
            await records.mark(ledger_id, [LOST])
        await records.lock(701, "worker:3181")

    link.run(mark)
    body = settled(call, lambda body: body["ledgers"] == 2)
    rows = {row["ledger"]: row for row in body["rows"]}
    assert rows[701]["owner"] == "persistent://public/default/t"
    assert (rows[701]["size"], rows[701]["worker"]) == (5000, "worker:3181")
    assert (rows[702]["size"], rows[702]["open"]) == (None, True)
    assert (body["size"], body["sized"]) == (5000, 1)
    assert body["workers"] == [{"worker": "worker:3181", "ledgers": 1}]
    [lost] = body["lost"]
    assert (lost["bookie"], lost["ledgers"], lost["due"]) == (LOST, 2, None)
    assert body["seconds_left"] is None
    items = call("GET", f"{API}/overview").json["attention"]["items"]
    [item] = [item for item in items if item["cause"] == "under-replicated"]
    assert item["title"] == "2 ledgers have too few copies"


def test_delay_is_changed_as_previewed_and_postpones(call: Call, link: BenchLink) -> None:
    settled(call, lambda body: body["lost"])
    previewed = preview(call, "repair/delay", seconds=7200)
    [lost] = previewed["lost"]
    assert lost["due"] == lost["since"] + 7_200_000
    assert previewed["before_s"] is None
    assert apply(call, "repair/delay", previewed["token"]).json["seconds"] == 7200
    assert settled(call, lambda body: body["delay_s"] == 7200)["lost"][0]["due"] == lost["due"]
    assert preview(call, "repair/delay", seconds=7200)["token"] is None
    other = preview(call, "repair/delay", seconds=60)
    link.run(lambda engine: records_of(engine.store).set_delay(5))
    assert apply(call, "repair/delay", other["token"]).status == 409
    for seconds in (-1, 10**9, "soon"):
        answer = call("POST", f"{API}/repair/delay", {"preview": True, "seconds": seconds})
        assert (answer.status, answer.json["reason"][:7]) == (400, "seconds")
    assert call("POST", f"{API}/repair/delay", {"preview": True}).status == 400


def test_switch_and_audit_are_done_as_previewed(call: Call, link: BenchLink) -> None:
    settled(call, lambda body: body["lost"])
    assert preview(call, "repair/audit")["problem"] == "No process is the auditor"
    assert preview(call, "repair/switch", on=True)["token"] is None
    off = preview(call, "repair/switch", on=False)
    assert apply(call, "repair/switch", off["token"]).json["on"] is False
    assert apply(call, "repair/switch", off["token"]).status == 409
    assert link.run(lambda engine: records_of(engine.store).enabled()) is False
    assert preview(call, "repair/audit")["problem"] == "Auto-recovery is turned off"
    assert call("POST", f"{API}/repair/switch", {"preview": True}).status == 400

    async def elect(engine: Engine) -> None:
        records = records_of(engine.store)
        await records.enable(True)
        await records.set_delay(60)
        vote = b'bookieId: "auditor:3181"\n'
        await engine.store.create(f"{paths.AUDITOR_VOTES}/V_0", vote, make_parents=True)

    link.run(elect)
    audit = preview(call, "repair/audit")
    assert [row["bookie"] for row in audit["lost"]] == [LOST]
    version = link.run(lambda engine: engine.store.exists(paths.LOST_BOOKIE_DELAY)).version
    assert apply(call, "repair/audit", audit["token"]).status == 200
    stat = link.run(lambda engine: engine.store.exists(paths.LOST_BOOKIE_DELAY))
    assert stat.version == version + 1


def test_blast_radius_names_the_topics_and_their_copies(call: Call) -> None:
    settled(call, lambda body: body["lost"])
    body = call("GET", f"{API}/bookies/{LOST}/blast-radius").json
    assert (body["ledgers"], body["open"], body["size"]) == (2, 1, 5000)
    assert body["counts"] == [{"copies": 0, "owners": 1}]  # the other bookie does not serve
    assert body["weakest"][0]["owner"] == "persistent://public/default/t"
    assert call("GET", f"{API}/bookies/unknown:1/blast-radius").status == 404


def test_decommission_is_refused_while_messages_would_be_lost_or_too_few_are_left(
    call: Call, link: BenchLink
) -> None:
    settled(call, lambda body: body["lost"])
    path = f"bookies/{LOST}/decommission"
    assert "no other bookie has" in preview(call, path)["problem"]
    serving = [
        row["id"]
        for row in call("GET", f"{API}/bookies").json["rows"]
        if row["state"] == "writable"
    ]
    drain = preview(call, f"bookies/{serving[0]}/decommission")
    assert (drain["drain"], drain["problem"]) == (
        True,
        "0 bookies would be left, and new ledgers need 1",
    )
    unknown = call("POST", f"{API}/bookies/unknown:1/decommission", {"preview": True})
    assert unknown.status == 404


def bookie_row(bookie: str, state: str, **figures: int) -> dict[str, Any]:
    return {"id": bookie, "state": state, "free_bytes": 20_000, "stored_bytes": None, **figures}


def test_room_is_needed_for_open_ledgers_too_and_still_when_it_is_confirmed(
    call: Call, link: BenchLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = settled(call, lambda body: body["lost"])
    assert state["decommissions"] == []
    rows = [bookie_row(LOST, "writable"), bookie_row("o1", "writable"), bookie_row("o2", "down")]
    real = selectors.state_now

    async def state_now(cluster: Any, engine: Engine) -> Any:
        return rows, (await real(cluster, engine))[1]

    monkeypatch.setattr(selectors, "state_now", state_now)
    path = f"bookies/{LOST}/decommission"
    unknown = preview(call, path)
    assert (unknown["problem"], unknown["size"], unknown["stored"]) == ("", 5000, None)
    rows[0]["stored_bytes"] = 20_001  # 5,000 of the closed ledger, and an open one
    full = preview(call, path)
    assert (full["token"], full["stored"], full["free"]) == (None, 20_001, 20_000)
    assert full["problem"] == "The other bookies have too little room for what it holds"
    rows[0]["stored_bytes"] = 20_000
    fits = preview(call, path)
    rows[1]["free_bytes"] = 19_999
    refused = apply(call, path, fits["token"])
    assert (refused.status, "too little room" in refused.json["reason"]) == (409, True)
    assert link.run(lambda engine: decommissions(engine.store)) == {}
    rows[1]["free_bytes"] = 20_000
    link.run(lambda engine: request_decommission(engine.store, SystemClock(), "o1", "bob"))
    leaving = apply(call, path, fits["token"])
    assert (leaving.status, "0 bookies would be left" in leaving.json["reason"]) == (409, True)


def test_of_two_decommissions_planned_with_each_other_one_is_refused(
    call: Call, link: BenchLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled(call, lambda body: body["lost"])
    rows = [
        bookie_row(LOST, "writable"),
        bookie_row("o1", "writable"),
        bookie_row("o2", "writable"),
    ]
    real = selectors.state_now

    async def state_now(cluster: Any, engine: Engine) -> Any:
        state = (await real(cluster, engine))[1]
        return rows, state._replace(decommissions={})  # as before the other request

    monkeypatch.setattr(selectors, "state_now", state_now)
    path = f"bookies/{LOST}/decommission"
    token = preview(call, path)["token"]
    link.run(lambda engine: request_decommission(engine.store, SystemClock(), "o1", "bob"))
    refused = apply(call, path, token)
    assert (refused.status, "o1 is taken out" in refused.json["reason"]) == (409, True)
    assert list(link.run(lambda engine: decommissions(engine.store))) == ["o1"]


def test_decommission_is_asked_for_and_withdrawn_as_previewed(call: Call, link: BenchLink) -> None:
    async def emptied(engine: Engine) -> None:
        for ledger_id in (701, 702):
            await engine.store.delete(paths.ledger(ledger_id))

    link.run(emptied)
    settled(call, lambda body: body["lost"])
    path = f"bookies/{LOST}/decommission"
    previewed = preview(call, path)
    assert (previewed["problem"], previewed["ledgers"]) == ("", 0)
    assert apply(call, path, previewed["token"]).status == 200
    stored = link.run(lambda engine: decommissions(engine.store))
    assert list(stored) == [LOST]
    assert apply(call, path, previewed["token"]).status == 409
    body = settled(call, lambda body: body["decommissions"])
    assert (body["decommissions"][0]["bookie"], body["decommissions"][0]["left"]) == (LOST, None)
    ended = preview(call, f"{path}/withdraw")
    assert apply(call, f"{path}/withdraw", ended["token"]).status == 200
    assert link.run(lambda engine: decommissions(engine.store)) == {}
    assert call("POST", f"{API}/{path}/withdraw", {"preview": True}).status == 404
    link.run(lambda engine: request_decommission(engine.store, SystemClock(), LOST, "bob"))
    assert apply(call, f"{path}/withdraw", ended["token"]).status == 409, "another request"

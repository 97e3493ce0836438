"""All bundles of a namespace or of a broker unloaded: only those that were previewed, each with its outcome."""

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest

from admin_ui.calls import Shape
from admin_ui.cluster import shapes
from admin_ui.cluster import unloading as pages
from admin_ui.models import AuditEntry
from engine.admin.api.arguments import OnBundle, OnTopic
from engine.admin.api.bundles import SPLIT_BUNDLE, UNLOAD_BUNDLE, SplitBundle
from engine.admin.api.messages import LAST_MESSAGE_ID
from engine.base.errors import Conflict, Failed, NotReady, Refusal, Unprocessable
from engine.base.names import BundleName, NamespaceName
from engine.rpc.operation import Operation
from engine.tenancy.namespaces import create_namespace, get_bundles
from gateway.services import unloading
from gateway.services.admin import topics
from gateway.services.engine_link import Engine
from gateway.services.unloading import Outcome
from tests.support.admin.clusters import cluster_without_link
from tests.support.admin.gateway_client import Gateway
from tests.unit.admin_ui.test_cluster_pages import (
    API,
    DEFAULT,
    PLAIN,
    Call,
    bundles_of,
    filled,
    owner,
)
from tests.unit.admin_ui.test_tenants import BenchLink, bench_link

NAMESPACE = f"{API}/tenants/public/namespaces/default/unload"
OTHER = NamespaceName.of("public", "other")


@pytest.fixture
def link() -> Iterator[BenchLink]:
    with bench_link(filled, all_owned) as made:
        yield made


async def all_owned(engine: Engine) -> None:
    for count in range(12):
        await engine.call(LAST_MESSAGE_ID, OnTopic(DEFAULT.topic(f"t{count}")))


@pytest.fixture
def call(link: BenchLink, transactional_db: None) -> Call:
    return Gateway(link.cluster)


def owned(link: BenchLink) -> list[BundleName]:
    """Return the bundles that the link's broker owns."""
    return sorted(link.bench.broker.running.ownership.owned(), key=str)


def broker_path(link: BenchLink) -> str:
    return f"{API}/brokers/{link.bench.broker.record.id}/unload"


def preview(call: Call, path: str) -> Any:
    answer = call("POST", path, {"preview": True})
    assert answer.status == 200, answer.json
    conform(shapes.UnloadPreview, answer.json)
    return answer.json


def conform(shape: Shape, body: Any) -> None:
    """Assert that the answer has the shape of the OpenAPI document."""
    assert shape(data=body).is_valid()
    assert body.keys() == shape().fields.keys()


def refusing(link: BenchLink, refusals: dict[BundleName, Refusal]) -> None:
    """Raise these refusals in place of unloading their bundles."""

    def before(operation: Operation[Any, Any], args: Any) -> None:
        if operation is UNLOAD_BUNDLE:
            refused = refusals.get(BundleName.parse(args.namespace, args.bundle))
            if refused is not None:
                raise refused

    link.bench.admin.before = before


def test_all_bundles_of_a_namespace_are_given_up_as_previewed(call: Call, link: BenchLink) -> None:
    rows = bundles_of(call)
    before, mine = AuditEntry.objects.count(), owned(link)
    broker = link.bench.broker.record.id
    previewed = preview(call, NAMESPACE)
    assert AuditEntry.objects.count() == before, "a preview changes nothing"
    assert owned(link) == mine, "a preview gives up nothing"
    assert (previewed["total"], previewed["unowned"], previewed["brokers"]) == (4, 0, 1)
    assert previewed["first"] == [str(bundle) for bundle in mine]
    assert previewed["owners"] == [{"broker": broker, "state": "up", "bundles": 4}]
    figures = previewed["figures"]
    assert (figures["topics"], figures["known"]) == (sum(row["topics"] for row in rows), "live")
    done = call("POST", NAMESPACE, {"token": previewed["token"]})
    assert (done.status, done.json["total"], done.json["done"]) == (200, 4, 4)
    assert (done.json["others"], done.json["owners"]) == ([], [{"broker": "", "bundles": 4}])
    assert owned(link) == []
    entry = AuditEntry.objects.latest("pk")
    assert (entry.target, entry.status) == (NAMESPACE, 200)
    assert all(bundle.range in entry.changes for bundle in mine), "every bundle is in the audit log"
    again = call("POST", NAMESPACE, {"token": previewed["token"]})
    assert (again.status, "4 of" in again.json["reason"]) == (409, False)
    assert "are not owned any more" in again.json["reason"]
    nothing = preview(call, NAMESPACE)
    assert (nothing["token"], nothing["total"], nothing["unowned"]) == (None, 0, 4)


def test_a_broker_gives_up_all_that_it_owns_of_any_namespace(call: Call, link: BenchLink) -> None:
    async def another(engine: Engine) -> None:
        await create_namespace(
            engine.store, OTHER, {"bundles": {"numBundles": 2}}, cluster="standalone"
        )
        await topics.create(engine, OTHER.topic("t"), {})

    link.run(another)
    bundles_of(call)
    previewed = preview(call, broker_path(link))
    assert not AuditEntry.objects.exists(), "a preview changes nothing"
    assert previewed["total"] == len(owned(link)) == 5
    assert previewed["unowned"] == 0
    done = call("POST", broker_path(link), {"token": previewed["token"]})
    assert (done.status, done.json["done"], owned(link)) == (200, 5, [])
    assert preview(call, broker_path(link))["token"] is None
    assert call("POST", f"{API}/brokers/nobody:1/unload", {"preview": True}).status == 404
    missing = f"{API}/tenants/public/namespaces/none/unload"
    assert call("POST", missing, {"preview": True}).status == 404


def test_nothing_is_unloaded_when_ownership_changed_since_the_preview(
    call: Call, link: BenchLink
) -> None:
    bundles_of(call)
    token = preview(call, NAMESPACE)["token"]
    wrong = call("POST", broker_path(link), {"token": token})
    assert (wrong.status, wrong.json["field"]) == (400, "token"), "the token is of another scope"
    first, *rest = owned(link)
    link.run(lambda e: e.call(UNLOAD_BUNDLE, OnBundle(DEFAULT, first.range)))
    gone = call("POST", NAMESPACE, {"token": token})
    assert (gone.status, f"{first} is not owned any more" in gone.json["reason"]) == (409, True)
    assert owned(link) == rest
    token = preview(call, NAMESPACE)["token"]
    link.run(all_owned)
    come = call("POST", NAMESPACE, {"token": token})
    assert (come.status, f"{first} is owned now and was not" in come.json["reason"]) == (409, True)
    assert len(owned(link)) == 4
    with pytest.raises(Conflict, match="n/x is owned by another broker now"):
        pages._check_as_seen({"n/x": "a"}, {"n/x": "b"})


def test_the_receipt_names_bundles_that_were_not_given_up_with_the_reason(
    call: Call, link: BenchLink
) -> None:
    bundles_of(call)
    moved, broken, lost, fine = owned(link)
    previewed = preview(call, NAMESPACE)
    refusing(
        link,
        {
            moved: Conflict("It is not broker b's any more"),
            broken: Failed("damaged"),
            lost: NotReady("Broker at b did not answer; the change may have happened"),
        },
    )
    done = call("POST", NAMESPACE, {"token": previewed["token"]})
    assert done.status == 200
    conform(shapes.UnloadReceipt, done.json)
    outcomes = {row["bundle"]: (row["outcome"], row["why"]) for row in done.json["others"]}
    assert outcomes == {
        str(moved): ("left", "It is not broker b's any more"),
        str(broken): ("failed", "damaged"),
        str(lost): ("unknown", "Broker at b did not answer; the change may have happened"),
    }
    counts = [done.json[name] for name in ("total", "done", "left", "failed", "unknown")]
    assert counts == [4, 1, 1, 1, 1]
    assert done.json["owners"] == [{"broker": "", "bundles": 1}], (
        "only unloaded bundles are counted"
    )
    assert fine not in owned(link)


def test_an_unload_without_a_known_success_fails(call: Call, link: BenchLink) -> None:
    bundles_of(call)
    token = preview(call, NAMESPACE)["token"]
    refusing(link, dict.fromkeys(owned(link), Conflict("It is not broker b's any more")))
    moved = call("POST", NAMESPACE, {"token": token})
    assert (moved.status, "(4 of 4 bundles)" in moved.json["reason"]) == (409, True)
    link.bench.admin.before = None
    link.silence()
    dead = call("POST", NAMESPACE, {"token": token})
    assert (dead.status, "does not answer (4 of 4 bundles)" in dead.json["reason"]) == (503, True)
    assert AuditEntry.objects.latest("pk").status == 503
    assert len(owned(link)) == 4


def test_figures_of_a_broker_that_does_not_answer_are_the_last_known(
    call: Call, link: BenchLink
) -> None:
    bundles_of(call)
    link.silence()
    until = time.monotonic() + 30
    while (previewed := preview(call, NAMESPACE))["owners"][0]["state"] != "down":
        assert time.monotonic() < until
        time.sleep(0.05)
    assert (
        previewed["figures"]["known"],
        previewed["figures"]["topics"],
        previewed["brokers"],
    ) == ("last", 13, 0)


def test_each_bundle_is_given_up_only_by_the_broker_of_the_preview(link: BenchLink) -> None:
    """``give_up`` reads each bundle's owner immediately before it unloads the bundle."""
    mine, *others = owned(link)
    record = link.bench.broker.record

    async def some(engine: Engine) -> dict[BundleName, unloading.Ended]:
        owners = dict.fromkeys(others, "pulsar://other:1") | {mine: record.service_url}
        return await unloading.give_up(engine, owners, asyncio.get_running_loop().time() + 60)

    ended = link.run(some)
    assert ended[mine] == (Outcome.DONE, "")
    assert [ended[bundle] for bundle in others] == [(Outcome.LEFT, f"{record.id} owns it")] * 3
    assert (owner(link, mine), owned(link)) == ("", others)
    assert link.run(some)[mine] == (Outcome.LEFT, "It has no owner any more")


def test_an_unload_is_not_awaited_beyond_its_deadline(
    link: BenchLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*given: Any) -> Any:
        await asyncio.Event().wait()

    async def within(engine: Engine, seconds: float) -> dict[BundleName, unloading.Ended]:
        owners = dict.fromkeys(owned(link), link.bench.broker.record.service_url)
        until = asyncio.get_running_loop().time() + seconds
        return await unloading.give_up(engine, owners, until)

    monkeypatch.setattr(link.bench.admin._rpc, "_request", never)
    asked = link.run(lambda engine: within(engine, 2.0))
    assert {ended.outcome for ended in asked.values()} == {Outcome.UNKNOWN}
    monkeypatch.setattr(unloading, "owner_now", never)
    late = link.run(lambda engine: within(engine, -1))
    assert {ended.outcome for ended in late.values()} == {Outcome.FAILED}
    assert all("was not begun" in ended.why for ended in late.values())


def test_a_broker_that_is_not_registered_receives_no_request(
    link: BenchLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = owned(link)[0]
    owners = {bundle: link.bench.broker.record.service_url}

    async def no_brokers() -> list[Any]:
        return []

    monkeypatch.setattr(link.bench.admin, "brokers", no_brokers)
    ended = link.run(lambda engine: unloading.give_up(engine, owners, float("inf")))
    assert ended[bundle].outcome is Outcome.FAILED
    assert "is not registered" in ended[bundle].why


def test_another_brokers_bundle_is_not_given_up_by_a_redirect(link: BenchLink) -> None:
    """``call_on`` follows no redirect to the present owner."""
    bundle = owned(link)[0]

    async def moved(*given: Any) -> Any:
        return 307, {"location": "http://other:1"}

    async def asked(engine: Engine) -> None:
        (broker,) = await engine.admin.brokers()
        link.bench.admin._rpc._request = moved  # type: ignore[method-assign]
        await engine.call_on(broker, UNLOAD_BUNDLE, OnBundle(DEFAULT, bundle.range))

    with pytest.raises(Conflict, match="any more"):
        link.run(asked)


def test_a_bundle_that_was_split_meanwhile_is_not_reported_as_given_up(
    call: Call, link: BenchLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundles_of(call)
    token = preview(call, NAMESPACE)["token"]
    bundle = link.run(lambda e: get_bundles(e.store, DEFAULT)).of_topic(PLAIN)
    give_up = unloading.give_up

    async def split_before(engine: Engine, *given: Any) -> Any:
        ended = await give_up(engine, *given)
        await engine.call(SPLIT_BUNDLE, SplitBundle(DEFAULT, bundle.range))
        return ended

    monkeypatch.setattr(unloading, "give_up", split_before)
    done = call("POST", NAMESPACE, {"token": token}).json
    assert (done["done"], done["left"]) == (3, 1)
    (row,) = done["others"]
    assert (row["bundle"], row["why"]) == (str(bundle), "It was split meanwhile")


async def test_more_than_can_be_confirmed_is_refused_with_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    many = dict.fromkeys((BundleName(DEFAULT, low, low + 1) for low in range(10_001)), "a")

    async def found(*given: Any) -> pages.OwnedBundles:
        return pages.OwnedBundles([], many, 0)

    monkeypatch.setattr(pages, "_find", found)
    with pytest.raises(Unprocessable, match=r"10001 .* at most 10000"):
        await pages.preview(cluster_without_link(), None, pages.Scope(broker="b"), "u")  # type: ignore[arg-type]


async def test_the_new_owners_are_unknown_while_the_store_is_unavailable() -> None:
    class Away:
        async def get(self, *given: Any) -> Any:
            raise NotReady("away")

    bundle = BundleName(DEFAULT, 0, 1)
    assert await pages._new_owners(Engine(Away(), None), [bundle]) is None  # type: ignore[arg-type]

"""The consumer of an entry by its key, and the conditions under which the entry waits."""

from engine.base.slices import View
from engine.broker.dispatch.choose.keys import KeyPolicy
from engine.broker.dispatch.choose.sticky import Sticky
from engine.broker.dispatch.consumer import Consumer, SubscriptionType
from engine.broker.settings import DataPathSettings
from tests.support.broker_bench import Client
from tests.support.ledger_cluster import run_of
from tests.support.raw_client import entry_of

SETTINGS = DataPathSettings()


def member(name: str) -> Consumer:
    kind = SubscriptionType.KEY_SHARED
    return Consumer(Client(), 1, name, kind, settings=SETTINGS, partition=-1, now_ms=0)


def test_only_entries_before_the_first_waiting_one_of_a_key_are_sent() -> None:
    for out_of_order, behind in ((False, None), (True, "a")):
        sticky = Sticky(KeyPolicy(out_of_order=out_of_order), SETTINGS)
        sticky.add(member("a"))
        run = run_of(*(entry_of(b"v", partition_key=key) for key in ("k", "k", "other", "k")))
        run.ledger_id, run.first = 7, 0
        sticky.wait(View(run, 1, 2))  # the second of k was given back
        shared = {
            i: who.name if who is not None else None
            for who, view in sticky.share(View(run, 0, 4), member("a"))
            for i in view.indexes
        }
        assert shared == {0: "a", 1: "a", 2: "a", 3: behind}

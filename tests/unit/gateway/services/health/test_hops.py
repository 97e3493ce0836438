"""The description of a hop: since when it has its state, the reason, and the advice."""

from gateway.services.health.hops import ADVICE, NAMES, HopError, Hops, HopState, Kind


def test_a_hop_has_the_begin_of_its_outage_and_clears_by_itself() -> None:
    now = 10
    hops = Hops(lambda: now)
    assert hops.expect(Kind.STORE).state is HopState.UNKNOWN
    assert hops.bad == [], "no check has run yet"
    now = 20
    hops.answered(Kind.STORE)
    now = 30
    hops.failed(Kind.STORE, why="is late", slow=True)
    now = 40
    hops.failed(Kind.STORE, why="is gone", slow=False)
    [bad] = hops.bad
    assert (bad.state, bad.since, bad.reason) == (HopState.DOWN, 30, "The metadata store is gone")
    assert "has a quorum" in bad.advice
    now = 50
    hops.answered(Kind.STORE)
    assert hops.bad == []
    answer = hops.all[0].as_json()
    assert answer == {
        "hop": "store", "id": "", "state": "ok", "since": 50, "reason": "", "advice": "",
    }  # fmt: skip


def test_hops_are_ordered_by_kind_and_id() -> None:
    hops = Hops(lambda: 1)
    for kind, id in (
        (Kind.DATABASE, ""),
        (Kind.BROKER, "b:2"),
        (Kind.STORE, ""),
        (Kind.BROKER, "b:1"),
    ):
        hops.expect(kind, id)
    assert [(hop.kind.value, hop.id) for hop in hops.all] == [
        ("store", ""), ("broker", "b:1"), ("broker", "b:2"), ("database", ""),
    ]  # fmt: skip
    hops.forget(Kind.BROKER, "b:1")
    assert [hop.id for hop in hops.of(Kind.BROKER)] == ["b:2"]


def test_every_kind_has_a_name_and_advice_and_an_error_carries_both() -> None:
    assert NAMES.keys() == ADVICE.keys() == set(Kind)
    hops = Hops(lambda: 1)
    hops.failed(Kind.BROKER, "b:1", slow=False)
    error = HopError(hops.bad[0])
    assert error.hop == "broker"
    assert str(error).startswith("Broker b:1 does not answer. Check that its process is running")


def test_advice_holds_at_the_time_and_with_the_other_hops() -> None:
    now = 0
    hops = Hops(lambda: now)
    hops.session_ms = 5_000
    hops.failed(Kind.STORE, slow=False)
    assert "serve their topics for 5 s without it" in hops.bad[0].advice
    version, now = hops.version, 6_000
    assert "lose their sessions after 5 s without it and close their topics" in hops.bad[0].advice
    assert hops.version > version, "pages show it, too"
    hops.answered(Kind.STORE)
    hops.failed(Kind.BROKER, "b:1", slow=False)
    hops.answered(Kind.BROKER, "b:2")
    assert "move to other brokers" in hops.bad[0].advice
    hops.failed(Kind.BROKER, "b:2", slow=False)
    for hop in hops.bad:
        assert "No other broker" in hop.advice
        assert "move to other brokers" not in hop.advice


def test_a_hop_that_cannot_be_checked_because_of_another_is_not_bad() -> None:
    hops = Hops(lambda: 1)
    hops.failed(Kind.SPARK, slow=False)
    hops.failed(Kind.REDIS, slow=False)
    version = hops.version
    hops.unknown(Kind.SPARK, why="reports through Redis, which does not answer")
    assert [hop.kind for hop in hops.bad] == [Kind.REDIS]
    assert hops.version > version
    assert hops.all[-1].as_json()["state"] == "unknown"

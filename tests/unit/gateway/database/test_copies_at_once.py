"""Starts of copies within the same moment: one of those that exclude each other wins, the others are refused."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection

from engine.base.errors import Conflict
from gateway.copies import services
from gateway.copies.models import CopyJob, CopyState

MEET_S = 1.0
"""Longest time for which a start waits for the other one between its row and its check."""
PLAN = {"targets": {}, "sources": []}
SOURCE = "persistent://public/default/source"


@pytest.fixture(autouse=True)
def _meeting(monkeypatch: pytest.MonkeyPatch, transactional_db: None) -> None:
    """Let two starts meet with their rows written, if nothing holds one of them up before."""
    barrier = threading.Barrier(2)
    real = services._check_alone

    def check_alone(job: CopyJob) -> None:
        try:
            barrier.wait(MEET_S)  # time: without a second start it must go on
        except threading.BrokenBarrierError:
            barrier.reset()
        real(job)

    monkeypatch.setattr(services, "_check_alone", check_alone)
    monkeypatch.setattr(services, "enqueue", lambda job: None)


def values(job_id: str, mode: str, **more: Any) -> dict[str, Any]:
    return {"id": job_id, "mode": mode, "source": SOURCE, "rate": 10, "plan": PLAN, **more}


def together(*starts: Callable[[], object]) -> list[str]:
    """Run all at once, each with a connection of its own; return the refusals."""

    connected = threading.Barrier(len(starts))

    def run(start: Callable[[], object]) -> str:
        try:
            connection.ensure_connection()
            connected.wait(30)
            start()
        except Conflict as error:
            return str(error)
        finally:
            connection.close()
        return ""

    with ThreadPoolExecutor(len(starts)) as pool:
        return [text for text in pool.map(run, starts) if text]


def test_of_two_moves_of_a_subscription_at_once_one_is_refused() -> None:
    move = {"subscription": "s", "target": "persistent://public/default/target"}
    [refused] = together(
        lambda: services.create(**values("m1", "move", **move)),
        lambda: services.create(**values("m2", "move", **move)),
    )
    [stored] = CopyJob.objects.all()
    assert refused == f"Copy {stored.id} moves messages of this subscription: stop it first"


def test_the_same_confirmation_twice_at_once_is_one_move() -> None:
    start = values("m1", "move", subscription="s")
    assert together(lambda: services.create(**start), lambda: services.create(**start)) == []
    assert CopyJob.objects.count() == 1


def test_of_two_undos_at_once_one_is_refused() -> None:
    services.create(**values("c1", "copy"))
    CopyJob.objects.update(state=CopyState.SUCCEEDED)
    [refused] = together(
        lambda: services.create(**values("u1", "undo", undoes="c1")),
        lambda: services.create(**values("u2", "undo", undoes="c1")),
    )
    assert refused.endswith("is queued: stop it first")
    assert CopyJob.objects.filter(undoes="c1").count() == 1


def test_of_a_resume_and_an_undo_at_once_one_is_refused() -> None:
    services.create(**values("c1", "copy"))
    CopyJob.objects.update(state=CopyState.STOPPED)
    refused = together(
        lambda: services.resume(job_id="c1"),
        lambda: services.create(**values("u1", "undo", undoes="c1")),
    )
    assert len(refused) == 1
    is_resumed = CopyJob.objects.get(id="c1").state == CopyState.QUEUED
    assert is_resumed != CopyJob.objects.filter(undoes="c1").exists()

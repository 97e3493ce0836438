"""``magnetar doctor``: each part that is silent is named in bounded time, and what is not known is never well."""

import asyncio
import os
import re
import socket
import time
import tomllib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import MagnetarError
from engine.client.errors import REFUSALS, ServerError
from magnetar.command.checks import brokers, gateway, machine
from magnetar.command.checks.examination import report
from magnetar.command.checks.findings import (
    BAD,
    Check,
    Diagnosis,
    Severity,
    all_findings,
    ok,
    problem,
    unknown,
)
from magnetar.command.connecting.client import connected
from magnetar.command.connecting.failures import failure
from magnetar.command.connecting.options import ClusterAddress
from magnetar.command.exits import CommandFailed, Exit

ADDRESS = ClusterAddress("pulsar://127.0.0.1:1", "http://127.0.0.1:1")
REMOTE = ClusterAddress("pulsar://b.example:6650", "http://b.example:8080")
SILENT = object()
HEALTH = "/api/v1/health"
RUNTIME = "/admin/v2/brokers/configuration/runtime"
BOOKIES = "/api/v1/clusters/c/bookies"


class FakeAdmin:
    """A REST interface with these answers by path: exceptions are raised, SILENT never answers, all others are
    missing."""

    url = "http://gateway:8080"

    def __init__(self, **answers: Any) -> None:
        self.answers: dict[str, Any] = {"/admin/v2/clusters": ["c"], **answers}

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        answer = self.answers.get(path, CommandFailed("no such path", Exit.MISSING))
        if isinstance(answer, Exception):
            raise answer
        if answer is SILENT:
            await asyncio.Event().wait()
        return answer


def view_of(answers: dict[str, Any]) -> gateway.RestAnswers:
    admin: Any = FakeAdmin(**answers)
    return gateway.RestAnswers(admin)


async def found_by(check: Check, timeout_s: float = 5.0) -> list[Diagnosis]:
    return await all_findings({"check": check}, timeout_s)


def health(state: str, hop: str = "broker", **others: Any) -> dict[str, Any]:
    row = {"hop": hop, "id": "b", "state": state, "reason": "why", "advice": "do this", **others}
    return {HEALTH: {"now": int(time.time() * 1000), "hops": [row]}}


async def test_a_check_that_does_not_end_is_unknown() -> None:
    async def check() -> AsyncIterator[Diagnosis]:
        yield ok("a", "well")
        await asyncio.Event().wait()

    well, silent = await found_by(check, 0.01)
    assert well.severity is Severity.OK
    assert (silent.severity, silent.part) == (Severity.UNKNOWN, "check")


@pytest.mark.parametrize("error", [OSError("x"), CommandFailed("x"), ValueError("x")])
async def test_a_check_that_fails_is_unknown(error: Exception) -> None:
    async def check() -> AsyncIterator[Diagnosis]:
        yield ok("a", "well")
        raise error

    assert [finding.severity for finding in await found_by(check)] == [
        Severity.OK,
        Severity.UNKNOWN,
    ]


@pytest.mark.parametrize(
    ("state", "hop", "severity"),
    [
        ("ok", "broker", Severity.OK),
        ("slow", "broker", Severity.PROBLEM),
        ("down", "store", Severity.PROBLEM),
        ("unknown", "bookie", Severity.UNKNOWN),
        ("something new", "bookie", Severity.PROBLEM),
        ("down", "redis", Severity.WARNING),
        ("unknown", "spark", Severity.INFO),
    ],
)
async def test_a_part_is_as_the_gateway_reports_it(
    monkeypatch: pytest.MonkeyPatch, state: str, hop: str, severity: Severity
) -> None:
    monkeypatch.setattr(gateway, "LOOK_AGAIN_S", 0)
    view = view_of(health(state, hop))
    clock, part = await found_by(partial(gateway.check_parts, view))
    assert clock.severity is Severity.OK
    assert part.severity is severity


async def test_the_second_look_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    view = view_of(health("ok"))
    admin: Any = view.admin

    async def look_again(seconds: float) -> None:
        admin.answers |= health("down")

    monkeypatch.setattr(gateway.asyncio, "sleep", look_again)
    _, part = await found_by(partial(gateway.check_parts, view))
    assert part.severity is Severity.PROBLEM


async def test_another_server_is_not_called_well_as_a_whole() -> None:
    view = view_of({})
    admin: Any = view.admin

    async def answer(method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        return 500, b'{"reason": "no topic"}'

    admin.answer = answer
    findings = await found_by(partial(gateway.check_parts, view))
    assert [finding.severity for finding in findings] == [Severity.INFO, Severity.PROBLEM]
    bookies = await found_by(partial(gateway.check_quorums, view))
    text = report([ok("a", "well"), *bookies], show_all=False)
    assert text.endswith("all that was checked is well; not checked: bookies")


async def test_clocks_apart_are_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway, "LOOK_AGAIN_S", 0)
    answers = health("ok")
    answers[HEALTH]["now"] -= 5000
    clock, _ = await found_by(partial(gateway.check_parts, view_of(answers)))
    assert clock.severity is Severity.PROBLEM
    assert "-5." in clock.text


def quorums(writable: int, ensemble: int, **own: int) -> dict[str, Any]:
    answers: dict[str, Any] = {
        BOOKIES: {"rows": [{"id": f"b{i}", "state": "writable"} for i in range(writable)]},
        RUNTIME: {"managedLedgerDefaultEnsembleSize": str(ensemble)},
        "/admin/v2/tenants": ["t"],
        "/admin/v2/namespaces/t": [f"t/{name}" for name in own],
    }
    for name, size in own.items():
        answers[f"/admin/v2/namespaces/t/{name}/persistence"] = (
            {"bookkeeperEnsemble": size} if size else None
        )
    return answers


async def test_each_namespace_needs_its_ensemble() -> None:
    check = partial(gateway.check_quorums, view_of(quorums(2, 2, a=3, b=0)))
    (finding,) = await found_by(check)
    assert finding.severity is Severity.PROBLEM
    assert finding.part == "namespace t/a"
    (finding,) = await found_by(partial(gateway.check_quorums, view_of(quorums(3, 2, a=3))))
    assert finding.severity is Severity.OK


async def test_an_ensemble_that_is_not_known_is_not_well() -> None:
    answers = quorums(3, 2) | {RUNTIME: CommandFailed("no broker", Exit.UNREACHABLE)}
    findings = await found_by(partial(gateway.check_quorums, view_of(answers)))
    assert [finding.severity for finding in findings] == [Severity.UNKNOWN]


async def test_a_full_disk_of_a_bookie_is_reported() -> None:
    answers = quorums(1, 1)
    answers[BOOKIES]["rows"][0] |= {"usage": 0.93, "usage_limit": 0.95}
    warned, _ = await found_by(partial(gateway.check_quorums, view_of(answers)))
    assert (warned.severity, warned.part) == (Severity.WARNING, "bookie b0")


async def test_a_cluster_without_a_leader_is_a_problem() -> None:
    (finding,) = await found_by(partial(gateway.check_leader, view_of({})))
    assert finding.severity is Severity.PROBLEM


async def test_a_frozen_broker_differs_from_a_missing_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brokers, "ANSWER_S", 0.05)
    server = socket.create_server(("127.0.0.1", 0))  # the kernel accepts, and no process answers
    port = server.getsockname()[1]
    url = f"pulsar://127.0.0.1:{port}"
    (frozen,) = await found_by(partial(brokers.check_url, ADDRESS, url))
    assert "accepts connections and does not answer" in frozen.text
    server.close()
    (missing,) = await found_by(partial(brokers.check_url, ADDRESS, url))
    assert "connection refused" in missing.text
    assert {frozen.severity, missing.severity} == {Severity.PROBLEM}


@pytest.mark.parametrize(
    ("address", "url"),
    [
        (REMOTE, "pulsar://127.0.0.1:6650"),
        (REMOTE, "pulsar://localhost:6650"),
        (ADDRESS, "pulsar://0.0.0.0:6650"),
        (ADDRESS, ""),
        (ADDRESS, "pulsar://127.0.0.1:1"),
    ],
)
async def test_an_address_that_clients_do_not_reach_is_named_with_its_setting(
    address: ClusterAddress, url: str
) -> None:
    (finding,) = await found_by(partial(brokers.check_advertised, address, "b", url))
    assert finding.severity is Severity.PROBLEM
    assert "advertised_address" in finding.remedy


@pytest.mark.parametrize(
    ("days", "severity"), [(-1, Severity.PROBLEM), (5, Severity.WARNING), (90, Severity.OK)]
)
def test_certificates_are_reported_before_they_end(days: int, severity: Severity) -> None:
    end = datetime.now(UTC) + timedelta(days=days, hours=1)
    assert brokers.certificate_finding("c", end).severity is severity


@pytest.mark.parametrize(
    ("free", "severity"),
    [(100, Severity.PROBLEM), (5_000, Severity.WARNING), (50_000, Severity.OK)],
)
def test_space_is_reported_before_it_ends(free: int, severity: Severity) -> None:
    assert machine.disk_finding(Path("d"), free << 20, 100_000 << 20).severity is severity


def test_doctor_asks_for_packages_that_every_installation_has() -> None:
    text = (Path(__file__).parents[3] / "pyproject.toml").read_text()
    required = {
        re.split(r"[<>=\[ ]", requirement)[0]
        for requirement in tomllib.loads(text)["project"]["dependencies"]
    }
    assert set(machine.PACKAGES) <= required


async def test_a_data_folder_that_others_change_is_a_problem(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    rights, _ = await found_by(partial(machine.check_folder, tmp_path))
    assert rights.severity is Severity.PROBLEM
    assert rights.remedy == f"chmod go-w {tmp_path}"


async def test_a_supervisor_that_is_silent_is_named(tmp_path: Path) -> None:
    import fcntl

    lock = tmp_path / "instance.lock"
    lock.write_text(f"{os.getpid()}\n")
    (finding,) = await found_by(partial(machine.check_instance, tmp_path))
    assert finding.severity is Severity.INFO  # no process has the lock
    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        (finding,) = await found_by(partial(machine.check_instance, tmp_path))
    assert finding.severity is Severity.PROBLEM
    assert f"kill -CONT {os.getpid()}" in finding.remedy


def test_the_report_begins_with_the_worst() -> None:
    findings = [ok("a", "well"), unknown("b", "?"), problem("c\x1b", "wrong", "mend")]
    lines = report(findings, show_all=False).splitlines()
    assert lines[0] == "problem  c\\x1b: wrong"
    assert lines[1].strip() == "-> mend"
    assert lines[2].startswith("unknown  b")
    assert "all is well" not in lines
    assert Severity.UNKNOWN in BAD


@pytest.mark.parametrize(
    ("url", "other"),
    [
        ("pulsar://127.0.0.1:{}", "pulsar+ssl://127.0.0.1:{}"),
        ("pulsar+ssl://127.0.0.1:{}", "pulsar://127.0.0.1:{}"),
    ],
)
async def test_a_port_of_the_other_kind_is_suspected(url: str, other: str) -> None:
    def end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    server = await asyncio.start_server(end, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    address = ClusterAddress(url.format(port), "http://127.0.0.1:1")
    with pytest.raises(MagnetarError) as caught:
        async with connected(address) as client:
            await client.partitions("t")
    server.close()
    failed = failure(caught.value, address)
    assert failed.exit_code == Exit.UNREACHABLE
    assert failed.hint.endswith(f"use {other.format(port)}")


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [
        (ServerError.AuthenticationError, Exit.REFUSED),
        (ServerError.AuthorizationError, Exit.REFUSED),
        (ServerError.TopicNotFound, Exit.MISSING),
        (ServerError.UnknownError, Exit.FAILED),
    ],
)
def test_refusals_have_their_exit_codes(code: ServerError, exit_code: Exit) -> None:
    assert failure(REFUSALS[code]("why"), ADDRESS, "t").exit_code == exit_code
    assert code.name in failure(REFUSALS[code](""), ADDRESS, "t").message

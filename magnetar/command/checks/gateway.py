"""Checks by the REST interface: the gateway, what it knows of all parts, clocks, quorums and disks (P4)."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

from engine.base.clock import SystemClock
from engine.base.tasks import TaskScope
from magnetar.command.checks.findings import Diagnosis, info, ok, problem, unknown, warning
from magnetar.command.connecting.admin import Admin, reason_of, refusal
from magnetar.command.exits import CommandFailed, Exit

LOOK_AGAIN_S = 2.6
"""Time after which an idle gateway has checked all parts again and counts silent ones as late."""
SKEW_MS = 1000
NAMESPACES_MAX = 300
SPACE_LEFT = 0.05
"""Part of a bookie's disk, below its limit, from which on it is reported."""
_NAMES = {
    "store": "metadata",
    "broker": "broker {id}",
    "bookie": "bookie {id}",
    "functions": "functions worker {id}",
    "gateway": "gateway",
    "redis": "redis",
    "spark": "analysis worker",
    "database": "console's database",
}
_OF_ANALYSES = ("redis", "spark")
NO_GATEWAY = "not checked: this server is no gateway of Magnetar"
NO_REST = "Check that the gateway runs, and --admin-url"


class RestAnswers:
    """The answers of the REST interface that several checks use, each requested once."""

    def __init__(self, admin: Admin) -> None:
        self.admin = admin
        self._answers: dict[str, asyncio.Task[Any]] = {}
        # Errors are raised where the answers are used: none is logged.
        self._tasks = TaskScope("view", lambda name, error: None)

    async def get(self, path: str) -> Any:
        """Return the answer of a path. Raises CommandFailed."""
        if path not in self._answers:
            self._answers[path] = self._tasks.spawn(path, self.admin.call("GET", path))
        return await asyncio.shield(self._answers[path])

    async def cluster(self) -> str:
        """Return the name of the cluster. Raises CommandFailed."""
        names = [name for name in await self.get("/admin/v2/clusters") if name != "global"]
        if len(names) == 1:  # which is known without a broker
            return str(names[0])
        settings = await self.get("/admin/v2/brokers/configuration/runtime")
        return str(settings["clusterName"])

    async def rows(self, resource: str) -> list[dict[str, Any]]:
        """Return the rows of a resource of the console. Raises CommandFailed, MISSING of another server than ours."""
        answer = await self.get(f"/api/v1/clusters/{await self.cluster()}/{resource}")
        return list(answer["rows"])

    async def close(self) -> None:
        await self._tasks.close()


async def check_rest(view: RestAnswers) -> AsyncIterator[Diagnosis]:
    """Check that the REST interface answers and accepts the credentials."""
    part = f"REST {view.admin.url}"
    try:
        version = await view.get("/admin/v2/brokers/version")
    except CommandFailed as error:
        remedy = error.hint if error.exit_code == Exit.REFUSED else NO_REST
        yield problem(part, error.message, remedy)
        return
    yield ok(part, f"answers, with Pulsar's interface {version}")


async def check_parts(view: RestAnswers) -> AsyncIterator[Diagnosis]:
    """Report each part as the gateway has checked it. It looks twice: the first look makes the gateway check often."""
    first = await _health(view)
    if first is None:
        yield info("parts", NO_GATEWAY)
        yield await _broker_health(view)
        return
    yield _clock(first)
    await asyncio.sleep(LOOK_AGAIN_S)
    health = await view.admin.call("GET", "/api/v1/health")
    for hop in health["hops"]:
        yield _hop(hop)


async def check_leader(view: RestAnswers) -> AsyncIterator[Diagnosis]:
    """Check that the brokers have a leader, which places bundles."""
    try:
        leader = await view.get("/admin/v2/brokers/leaderBroker")
    except CommandFailed as error:
        if error.exit_code != Exit.MISSING:
            raise
        leader = None
    if isinstance(leader, dict) and leader.get("brokerId", leader.get("serviceUrl")):
        yield ok("leader", str(leader.get("brokerId", leader.get("serviceUrl"))))
    else:
        yield problem(
            "leader", "the brokers have none", "Check the metadata store and the brokers' logs"
        )


async def _health(view: RestAnswers) -> dict[str, Any] | None:
    try:
        answer = await view.admin.call("GET", "/api/v1/health")
    except CommandFailed as error:
        if error.exit_code == Exit.MISSING:
            return None
        raise
    return answer if isinstance(answer, dict) and "hops" in answer else None


async def _broker_health(view: RestAnswers) -> Diagnosis:
    """Return the result of a broker's own health check, which publishes and receives a message. Raises CommandFailed
    when it is not known."""
    status, data = await view.admin.answer("GET", "/admin/v2/brokers/health")
    if status in (401, 403, 404):
        raise refusal(status, data)
    if status == 200 and data == b"ok":
        return ok("health check of the broker", "a message was published and received")
    reason = reason_of(data) or f"status {status}"
    return problem("health check of the broker", reason, "Read the end of the broker's log")


def _clock(health: Mapping[str, Any]) -> Diagnosis:
    skew_ms = int(health["now"]) - SystemClock().wall_ms()
    if abs(skew_ms) > SKEW_MS:
        return problem(
            "clock",
            f"the gateway's clock is {skew_ms / 1000:+.1f} s from this machine's",
            "Synchronize the clocks (NTP): times of messages, tokens and retention depend on them",
        )
    return ok("clock", f"the gateway's is within {SKEW_MS / 1000:g} s of this machine's")


def _hop(hop: Mapping[str, Any]) -> Diagnosis:
    kind, state = str(hop["hop"]), hop["state"]
    part = _NAMES.get(kind, kind).format(id=hop["id"])
    reason, advice = str(hop["reason"]), str(hop["advice"])
    if state == "ok":
        return ok(part, "answers the gateway")
    if kind in _OF_ANALYSES:  # messages do not depend on them
        if state == "unknown":
            return info(part, reason)
        return warning(part, reason, advice)
    return unknown(part, reason, advice) if state == "unknown" else problem(part, reason, advice)


async def check_quorums(view: RestAnswers) -> AsyncIterator[Diagnosis]:
    """Check that each namespace's ensemble finds enough writable bookies, and the bookies' disks."""
    try:
        bookies = await view.rows("bookies")
    except CommandFailed as error:
        if error.exit_code != Exit.MISSING:
            raise
        yield info("bookies", NO_GATEWAY)
        return
    writable = [row for row in bookies if row["state"] == "writable"]
    for row in bookies:
        if finding := _disk(row):
            yield finding
    needs = await _ensembles(view)
    short = {name: size for name, size in needs.items() if size > len(writable)}
    for name, size in sorted(short.items()):
        yield problem(
            f"namespace {name}" if name else "new ledgers",
            f"an ensemble needs {size} writable bookies and there are {len(writable)}",
            "Start the bookies that are down, add some, or lower the namespace's ensemble",
        )
    if not short:
        most = max(needs.values(), default=0)
        yield ok("bookies", f"{len(writable)} writable, an ensemble needs at most {most}")


def _disk(row: Mapping[str, Any]) -> Diagnosis | None:
    part = f"bookie {row['id']}"
    if row["state"] == "read-only":
        return problem(part, f"it is {row['state']}: {row.get('reason') or 'no reason given'}",
                       "Make room on its disk, or add a bookie")  # fmt: skip
    usage, limit = row.get("usage"), row.get("usage_limit")
    if usage is not None and limit is not None and usage > limit - SPACE_LEFT:
        return warning(
            part,
            f"its disk is {usage:.0%} full; at {limit:.0%} it only reads",
            "Make room, add a bookie, or shorten retention",
        )
    return None


async def _ensembles(view: RestAnswers) -> dict[str, int]:
    """Return the size of an ensemble by namespace; of the default under an empty name."""
    settings = await view.get("/admin/v2/brokers/configuration/runtime")
    needs = {"": int(settings.get("managedLedgerDefaultEnsembleSize") or 0)}
    tenants = await view.get("/admin/v2/tenants")
    lists = await asyncio.gather(*(view.get(f"/admin/v2/namespaces/{name}") for name in tenants))
    names = [name for namespaces in lists for name in namespaces][:NAMESPACES_MAX]
    policies = await asyncio.gather(
        *(view.get(f"/admin/v2/namespaces/{name}/persistence") for name in names)
    )
    for name, policy in zip(names, policies, strict=True):
        if isinstance(policy, dict) and policy.get("bookkeeperEnsemble"):
            needs[name] = int(policy["bookkeeperEnsemble"])
    return needs

"""Installation of Spark by the supervisor of this instance, for its first analysis."""

from pathlib import Path
from typing import Any

from django.conf import settings

from engine.base.errors import NotReady, PreconditionFailed

ANSWER_S = 20.0
"""Time within which the supervisor must answer; it asks the disk and the installers."""
ELSEWHERE = {
    "state": "elsewhere",
    "done_mb": 0,
    "total_mb": 0,
    "message": "",
    "download_mb": 0,
    "disk_mb": 0,
    "peak_mb": 0,
    "problems": [],
    "command": "",
}
"""The state where no supervisor runs Spark: a worker's machine has it."""


def state() -> dict[str, Any]:
    """Return the state of Spark's packages, and what analyses lack. Raises NotReady."""
    return _ask("spark-setup")


def install() -> dict[str, Any]:
    """Begin the installation, if it is possible and not done; return the state. Raises PreconditionFailed, NotReady."""
    before = state()
    if before["state"] == "elsewhere":
        raise PreconditionFailed(
            "Spark is not run by this instance: install it where the workers run"
        )
    if before["state"] in ("installed", "installing"):
        return before
    if before["problems"]:
        raise PreconditionFailed(" ".join(before["problems"]))
    return _ask("install-spark")


def is_missing() -> bool:
    """Return whether Spark is known not to be installed."""
    try:
        return state()["state"] not in ("installed", "elsewhere")
    except NotReady:
        return False


def check_installed() -> None:
    """Raise PreconditionFailed when an analysis cannot run since Spark is not installed. An unknown state is none: the
    run then waits."""
    try:
        known = state()
    except NotReady:
        return
    if known["state"] == "installing":
        raise PreconditionFailed("Spark is being installed: start the run again when it is there")
    if known["state"] in ("missing", "failed"):
        raise PreconditionFailed(
            "Spark is not installed. A superuser installs it in the console (Analyses), by POST"
            f" /api/v1/spark, or with: {known['command']}"
        )


def _ask(verb: str) -> dict[str, Any]:
    path = settings.ENVIRONMENT.control_socket
    if not path:
        return dict(ELSEWHERE)
    from gateway.standalone.control import NotRunningError, send_request

    try:
        answer = send_request(Path(path), verb, timeout_s=ANSWER_S)
    except NotRunningError as error:
        raise NotReady(f"the supervisor does not answer: {error}") from error
    if "spark" in answer:
        known: dict[str, Any] = answer["spark"]
        return known
    return dict(ELSEWHERE)

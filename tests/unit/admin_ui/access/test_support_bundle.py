"""The console's support bundle: for superusers, one at a time, collected by ``magnetar support``."""

import fcntl
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from admin_ui.models import AuditEntry
from admin_ui.support import services
from tests.support.access.callers import SUPERUSER, bearer, by_token
from tests.support.admin.gateway_client import Gateway, call, cluster, engine, gateway

__all__ = ["call", "cluster", "engine", "gateway"]
PATH = "/api/v1/support-bundle"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(settings, "ENVIRONMENT", replace(settings.ENVIRONMENT, data_dir=tmp_path))
    return tmp_path


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The collections: command and variables. Each writes a file."""
    made: list[dict[str, Any]] = []

    def run(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        made.append({"command": command, "env": options["env"]})
        Path(command[command.index("support") + 1]).write_bytes(b"PK of a bundle")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    return made


@pytest.mark.django_db
@pytest.mark.parametrize("role", [SUPERUSER, "stranger"])
def test_only_a_superuser_collects_a_bundle_and_it_is_recorded(
    call: Gateway, monkeypatch: pytest.MonkeyPatch, runs: list[dict[str, Any]], role: str
) -> None:
    monkeypatch.setattr(settings, "IDENTITY", by_token(authorization_enabled=True))
    answer = call("POST", PATH, {}, headers=bearer(role))
    if role == SUPERUSER:
        assert (answer.status, answer.body) == (200, b"PK of a bundle")
        assert answer.headers["content-type"] == "application/zip"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["content-disposition"].startswith("attachment;")
    else:
        assert (answer.status, runs) == (403, [])
    (entry,) = AuditEntry.objects.filter(operation="collectSupportBundle")
    assert entry.status == answer.status


@pytest.mark.django_db
def test_the_bundle_is_of_the_instance_and_names_are_replaced_on_request(
    call: Gateway, monkeypatch: pytest.MonkeyPatch, runs: list[dict[str, Any]], folder: Path
) -> None:
    monkeypatch.setenv("MAGNETAR_METADATA_URL", "zk:127.0.0.1:1")
    assert call("POST", PATH, {"hash_names": True}).status == 200
    monkeypatch.setattr(
        settings, "ENVIRONMENT", replace(settings.ENVIRONMENT, control_socket=f"{folder}/control")
    )
    assert call("POST", PATH, {}).status == 200
    of_cluster, of_instance = runs
    assert "--hash-names" in of_cluster["command"]
    assert of_cluster["env"]["MAGNETAR_METADATA_URL"] == "zk:127.0.0.1:1"
    assert "--hash-names" not in of_instance["command"]
    assert of_instance["command"][-2:] == ["--data-dir", str(folder)]
    assert "MAGNETAR_METADATA_URL" not in of_instance["env"]
    assert call("POST", PATH, {"hash_names": "perhaps"}).json["field"] == "hash_names"


@pytest.mark.django_db
def test_a_second_collection_at_the_same_time_is_refused(
    call: Gateway, runs: list[dict[str, Any]], folder: Path
) -> None:
    with (folder / services.LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        answer = call("POST", PATH, {})
        assert (answer.status, runs) == (409, [])
        assert answer.json["reason"].startswith("a support bundle is being collected")
    assert call("POST", PATH, {}).status == 200


@pytest.mark.django_db
def test_a_collection_that_fails_is_answered_with_its_reason(
    call: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 1, "", "x\nno space left on the device\n")

    def hang(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        raise subprocess.TimeoutExpired(command, options["timeout"])

    for run, reason in (
        (fail, "magnetar support failed: no space left on the device"),
        (hang, "the bundle was not complete after 150 s"),
    ):
        monkeypatch.setattr(subprocess, "run", run)
        answer = call("POST", PATH, {})
        assert (answer.status, answer.json["reason"]) == (503, reason)

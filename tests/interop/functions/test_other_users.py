"""Instances that run as other users of the operating system: hostile code reads nothing of the worker or of others."""

import json
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulsar
import pytest

from tests.interop.functions.test_secure_functions import as_json, called
from tests.interop.identity.conftest import Secured
from tests.support.functions.other_users import UID, reachable_python
from tests.support.functions.worker_processes import (
    WORKER,
    WorkerProcess,
    further_worker,
    instances_of,
)
from tests.support.instance import Instance
from tests.support.waiting import until_blocking

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can run instances as other users"),
]

RECEIVE_MS = 60_000
ROLE = "functions-public"
PREFIX = "MAGNETAR_FUNCTIONS_WORKER"
SECRET = "what-only-the-victim-knows"
HOSTILE = """
import json, os, signal, subprocess
from pathlib import Path
from pulsar import Function

def attempt(work):
    try:
        return repr(work())
    except BaseException as error:
        return "refused: " + type(error).__name__

def climb():
    os.setuid(0)
    return os.getuid()

class Hostile(Function):
    def process(self, input, context):
        asked = json.loads(input)
        own = next(Path("..", "..").resolve().glob("token"), None)
        subprocess.Popen(["/bin/sh", "-c", "setsid sleep 1000 & setsid sleep 1000 &"])
        return json.dumps({
            "ids": [os.getuid(), os.getgid(), os.getgroups()],
            "environ": sorted(os.environ),
            "files": {path: attempt(Path(path).read_bytes) for path in asked["files"]},
            "folders": {path: attempt(lambda: os.listdir(path)) for path in asked["folders"]},
            "environs": {pid: attempt(Path("/proc", str(pid), "environ").read_bytes) for pid in asked["pids"]},
            "kills": {pid: attempt(lambda: os.kill(pid, signal.SIGCONT)) for pid in asked["pids"]},
            "root": attempt(climb),
            "modes": [oct(os.stat(path).st_mode & 0o777) for path in (os.environ["HOME"], os.environ["TMPDIR"])],
        })
"""
VICTIM = f"""
import os
from pulsar import Function

class Victim(Function):
    def process(self, input, context):
        with open(os.path.join(os.environ["HOME"], "secret"), "w") as file:
            file.write({SECRET!r})
        os.chmod(file.name, 0o666)
        return os.environ["HOME"]
"""


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("users")
    made = Instance(folder, secure=True, MAGNETAR_FUNCTIONS_WORKER_ENABLED="true")
    made.start()
    try:
        yield Secured(made)
    finally:
        made.stop()


@pytest.fixture(scope="module")
def public() -> Iterator[Path]:
    """A folder that every user can reach."""
    folder = Path(tempfile.mkdtemp(prefix="magnetar-users-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def python(public: Path) -> str:
    reachable = reachable_python(public / "python")
    if not reachable:
        pytest.skip("other users can read neither this Python nor a copy with its packages")
    return reachable


def settings_of(secured: Secured, public: Path) -> dict[str, str]:
    trusted = public / "ca.pem"
    trusted.write_bytes(secured.files.authority.read_bytes())
    trusted.chmod(0o644)
    return {
        f"{PREFIX}_RUN_AS_USER": f"{UID}-{UID + 9}",
        f"{PREFIX}_DOWNLOAD_DIRECTORY": str(public / "functions"),
        "MAGNETAR_BROKER_CLIENT_TRUST_CERTS_FILE_PATH": str(trusted),
    }


@pytest.fixture(scope="module")
def worker(secured: Secured, public: Path, python: str) -> Iterator[WorkerProcess]:
    """The only worker with instances: with users of their own."""
    header = ("-H", f"@{secured.files.header}")
    until_blocking(
        lambda: secured.curl("/admin/v2/worker/cluster/leader", *header)[0] == 200, "the worker"
    )
    (first,) = called(secured, "GET", "/admin/v2/worker/cluster")
    with further_worker(
        secured.instance, "other-users", python, **settings_of(secured, public)
    ) as second:
        until_blocking(
            lambda: (
                second.process.poll() is not None
                or len(called(secured, "GET", "/admin/v2/worker/cluster")) == 2
            ),
            lambda: second.log.read_text()[-2000:],
        )
        assert second.process.poll() is None, second.log.read_text()[-2000:]
        called(secured, "PUT", f"/admin/v2/worker/drain?workerId={first['workerId']}")
        yield second


def create(secured: Secured, folder: Path, name: str, code: str, class_name: str) -> None:
    base = f"persistent://{name}"
    config = {
        "className": f"users_function.{class_name}",
        "inputs": [f"{base}-in"],
        "output": f"{base}-out",
        "subscriptionPosition": "Earliest",
    }
    file = folder / "users_function.py"
    file.write_text(code)
    form = f"functionConfig={json.dumps(config)};type=application/json"
    called(secured, "POST", f"/admin/v3/functions/{name}", "-F", form, "-F", f"data=@{file}")


def answered(client: pulsar.Client, name: str, message: bytes) -> str:
    """Return the function's result for a message."""
    consumer = client.subscribe(
        f"persistent://{name}-out", "test", initial_position=pulsar.InitialPosition.Earliest
    )
    producer = client.create_producer(f"persistent://{name}-in")
    producer.send(message)
    text = consumer.receive(RECEIVE_MS).data().decode()
    producer.close()
    consumer.close()
    return text


def processes_of(uid: int) -> list[int]:
    pids = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and folder.stat().st_uid == uid:
                pids.append(int(folder.name))
        except FileNotFoundError:
            continue
    return pids


def test_hostile_code_reads_nothing_of_the_worker_or_of_other_functions(
    secured: Secured, worker: WorkerProcess, public: Path, tmp_path: Path
) -> None:
    namespace = f"public/users-{uuid.uuid4().hex[:8]}"
    called(secured, "PUT", f"/admin/v2/namespaces/{namespace}")
    grant = f"/admin/v2/namespaces/{namespace}/permissions/{ROLE}"
    called(secured, "POST", grant, *as_json(["produce", "consume"]))
    client = secured.client(pulsar.AuthenticationToken(secured.token))
    victim, spy = f"{namespace}/victim", f"{namespace}/spy"
    try:
        create(secured, tmp_path, victim, VICTIM, "Victim")
        home = Path(answered(client, victim, b"x"))
        assert (home / "secret").read_text() == SECRET
        create(secured, tmp_path, spy, HOSTILE, "Hostile")
        instance_folder = home.parents[1]
        pids = [worker.pid, *instances_of(worker.pid)]
        files = [
            *(path for path in secured.files.authority.parent.rglob("*") if path.is_file()),
            home / "secret",
            home.parent / "log" / "log.txt",
            instance_folder / "token",
        ]
        assert all(path.is_file() for path in files)
        folders = [home, home / "code", home.parent / "log", instance_folder / "code"]
        asked = {"files": [*map(str, files)], "folders": [*map(str, folders)], "pids": pids}
        shown: dict[str, Any] = json.loads(answered(client, spy, json.dumps(asked).encode()))
        uid, gid, groups = shown["ids"]
        assert uid == gid
        assert uid in range(UID, UID + 10)
        assert uid != home.stat().st_uid
        assert groups == []
        assert shown["environ"] == ["HOME", "LANG", "PATH", "TMPDIR", "TZ"]
        assert shown["modes"] == ["0o700", "0o700"]
        assert shown["root"] == "refused: PermissionError"
        own = [pid for pid in instances_of(worker.pid) if Path(f"/proc/{pid}").stat().st_uid == uid]
        for kind in ("files", "folders", "environs", "kills"):
            got = {
                name: value
                for name, value in shown[kind].items()
                if not value.startswith("refused") and name not in map(str, own)
            }
            assert got == {}, kind
        assert len(shown["files"]) > 10
        called(secured, "DELETE", f"/admin/v3/functions/{spy}")
        # What it started in sessions of their own ends with it, before another instance has this user.
        until_blocking(lambda: not processes_of(uid), lambda: f"{processes_of(uid)} to end")
        assert (
            sorted(path.name for path in (public / "functions" / "instances").glob("*/*spy*")) == []
        )
    finally:
        client.close()
        for name in (victim, spy):
            header = ("-H", f"@{secured.files.header}")
            secured.curl(f"/admin/v3/functions/{name}", "-X", "DELETE", *header)


def test_a_worker_that_cannot_switch_does_not_start_and_says_why(
    secured: Secured, public: Path, python: str
) -> None:
    settings = settings_of(secured, public)
    # Its parent folders are for their owner alone.
    closed = secured.instance.data_dir / "closed"
    closed.mkdir(mode=0o700)
    settings[f"{PREFIX}_DOWNLOAD_DIRECTORY"] = str(closed / "functions")
    closed.parent.chmod(0o700)
    refused = WorkerProcess(secured.instance, "refused", python, **settings)
    assert refused.process.wait(60) == 78
    last = refused.log.read_text().strip().splitlines()[-1]
    assert f"run_as_user: user {UID} cannot run an instance in {closed}/functions" in last
    assert secured.instance.child(WORKER)["pid"]

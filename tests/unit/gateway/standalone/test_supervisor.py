"""The supervisor over real, tiny child processes."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from gateway.standalone import supervisor as supervising
from gateway.standalone.children import child_process
from gateway.standalone.children.child_process import SAME_ENDS_MAX, ChildProcess, ChildState
from gateway.standalone.control import send_request
from gateway.standalone.plan import Child, Ready, control_socket
from gateway.standalone.supervisor import Supervisor, configure_output, report
from tests.support.ports import free_ports
from tests.support.waiting import until

SLEEPER = (sys.executable, "-c", "import time; time.sleep(60)")
STUBBORN = (
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True);"
    " time.sleep(60)",
)


def child(name: str, argv: tuple[str, ...] = SLEEPER, **rest: object) -> Child:
    return Child(name, argv, {}, Ready("alive"), **rest)  # type: ignore[arg-type]


@asynccontextmanager
async def running(tmp_path: Path, spec: Child, lines: list[str]) -> AsyncIterator[ChildProcess]:
    process = ChildProcess(spec, tmp_path, lines.append, "127.0.0.1")
    process.start()
    try:
        await asyncio.wait_for(process.ready.wait(), 120)
        yield process
    finally:
        await process.stop()


async def test_a_killed_child_is_named_and_started_again(tmp_path: Path) -> None:
    lines: list[str] = []
    async with running(tmp_path, child("bookie-1"), lines) as process:
        first = process.describe()["pid"]
        process.kill()
        while process.describe()["pid"] in (first, None) or not process.ready.is_set():
            await asyncio.sleep(0.01)
        assert process.restarts == 1
        assert "bookie-1 ended (signal 9)" in lines[0]


async def test_a_stopped_child_stays_down_until_started(tmp_path: Path) -> None:
    async with running(tmp_path, child("redis"), []) as process:
        pid = process.describe()["pid"]
        await process.stop()
        assert process.state is ChildState.STOPPED
        assert process.describe()["pid"] is None
        assert not Path(f"/proc/{pid}").exists()
        process.start()
        await asyncio.wait_for(process.ready.wait(), 120)
        assert process.describe()["pid"] not in (None, pid)


async def test_a_child_that_ignores_sigterm_is_killed_after_its_time(tmp_path: Path) -> None:
    lines: list[str] = []
    async with running(tmp_path, child("broker-1", STUBBORN, stop_timeout_s=0.5), lines) as process:
        while process.log.last_message() != "deaf":
            await asyncio.sleep(0.01)
        await process.stop()
        assert process.describe()["pid"] is None
    assert lines == ["broker-1 did not stop in 0 s: killed"]


@pytest.mark.parametrize("folder", [".", "a" * 120])
async def test_control_socket_answers_status_and_names_what_is_wrong(
    tmp_path: Path, folder: str
) -> None:
    """Serve it also where its path is too long for a Unix socket: it is in the data folder, where no other user is."""
    (tmp_path / folder).mkdir(exist_ok=True)
    path = control_socket(tmp_path / folder)
    supervisor = Supervisor(
        [child("zookeeper"), child("worker", needs=("zookeeper",))],
        log_dir=tmp_path,
        host="127.0.0.1",
        control_socket=path,
        report=lambda text: None,
    )
    ready = asyncio.Event()

    def banner(took_s: float) -> str:
        ready.set()
        return ""

    serving = asyncio.get_running_loop().create_task(supervisor.run(banner))
    try:
        await asyncio.wait_for(ready.wait(), 120)
        assert (path.parent, path.stat().st_mode & 0o777) == (tmp_path / folder, 0o600)
        status = await asyncio.to_thread(send_request, path, "status")
        assert [(c["name"], c["state"]) for c in status["children"]] == [
            ("zookeeper", "running"),
            ("worker", "running"),
        ]
        unknown = await asyncio.to_thread(send_request, path, "stop", "nobody")
        assert unknown["error"] == "no child named 'nobody'; there are: zookeeper, worker"
        odd = await asyncio.to_thread(send_request, path, "explode", "worker")
        assert odd["error"].startswith("unknown verb 'explode'")
        stopped = await asyncio.to_thread(send_request, path, "stop", "worker")
        assert stopped["children"][0]["state"] == "stopped"
        again = await asyncio.to_thread(send_request, path, "kill", "worker")
        assert "is not running" in again["error"]
    finally:
        os.kill(os.getpid(), 15)
        assert await asyncio.wait_for(serving, 120) == 0
    assert not path.exists()


@asynccontextmanager
async def serving(supervisor: Supervisor) -> AsyncIterator[None]:
    """Run the supervisor until the instance is ready; stop it at the end."""
    ready = asyncio.Event()

    def banner(took_s: float) -> str:
        ready.set()
        return ""

    running = asyncio.get_running_loop().create_task(supervisor.run(banner))
    try:
        await asyncio.wait_for(ready.wait(), 120)
        yield
    finally:
        supervisor._on_signal(signal.SIGTERM)
        assert await asyncio.wait_for(running, 120) == 0


async def order(supervisor: Supervisor, verb: str, name: str) -> dict[str, object]:
    return await supervisor._answer(json.dumps({"verb": verb, "name": name}).encode())


@pytest.mark.parametrize("verb", ["need", "start"])
async def test_a_request_starts_a_child_on_demand_and_before_it_what_it_needs(
    tmp_path: Path, verb: str
) -> None:
    redis = replace(child("redis"), on_demand=True, serves="analyses")
    worker = replace(child("worker"), on_demand=True, serves="analyses", needs=("redis", "gateway"))
    supervisor = made(tmp_path, [], child("gateway"), redis, worker)
    async with serving(supervisor):
        states = {name: process.state for name, process in supervisor._children.items()}
        assert states == {
            "gateway": ChildState.RUNNING,
            "redis": ChildState.DOWN,
            "worker": ChildState.DOWN,
        }
        answer = await order(supervisor, verb, "worker")
        assert [child["state"] for child in answer["children"]] == ["running"]  # type: ignore[attr-defined]
        pids = [process.describe()["pid"] for process in supervisor._children.values()]
        assert None not in pids
        await order(supervisor, verb, "worker")
        assert [process.describe()["pid"] for process in supervisor._children.values()] == pids


async def test_a_need_also_starts_at_once_the_children_needed_later(
    tmp_path: Path,
) -> None:
    spark = replace(child("spark"), on_demand=True, ready=Ready("tcp", free_ports(1)[0]))
    worker = replace(child("worker"), on_demand=True, will_need=("spark",))
    supervisor = made(tmp_path, [], child("gateway"), spark, worker)
    async with serving(supervisor):
        await order(supervisor, "start", "worker")
        assert supervisor._children["spark"].state is ChildState.DOWN
        answer = await order(supervisor, "need", "worker")
        assert [child["state"] for child in answer["children"]] == ["running"]  # type: ignore[attr-defined]
        await until(lambda: supervisor._children["spark"].state is ChildState.STARTING)
        await order(supervisor, "stop", "spark")
        await order(supervisor, "need", "worker")
        assert supervisor._children["spark"].state is ChildState.STOPPED


async def test_a_need_does_not_start_a_child_that_was_stopped_by_a_request(tmp_path: Path) -> None:
    supervisor = made(tmp_path, [], child("gateway"), replace(child("worker"), on_demand=True))
    async with serving(supervisor):
        await order(supervisor, "need", "worker")
        await order(supervisor, "stop", "worker")
        refused = await order(supervisor, "need", "worker")
        assert refused == {"error": "worker was stopped by a request"}
        assert supervisor._children["worker"].state is ChildState.STOPPED
        assert "children" in await order(supervisor, "start", "worker")


async def test_a_child_whose_need_was_stopped_by_a_request_is_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    redis = replace(child("redis"), on_demand=True)
    worker = replace(child("worker"), on_demand=True, needs=("redis",))
    supervisor = made(tmp_path, [], redis, worker, child("gateway"))
    async with serving(supervisor):
        await order(supervisor, "stop", "redis")
        refused = await order(supervisor, "need", "worker")
        assert refused["error"] == "redis, which worker needs, was stopped by a request"
        assert supervisor._children["worker"].state is ChildState.DOWN


async def test_a_broker_is_found_by_the_id_it_registers_with(tmp_path: Path) -> None:
    supervisor = made(
        tmp_path,
        [],
        replace(child("bookie-1"), ports={"bookie": 3181, "http": 8000}),
        replace(child("broker-1"), ports={"pulsar": 6650, "http": 8081}),
        replace(child("broker-2"), ports={"pulsar": 6660, "http": 8091}),
    )

    async def error(name: str) -> str:
        request = json.dumps({"verb": "kill", "name": name}).encode()
        return str((await supervisor._answer(request))["error"])

    assert await error("127.0.0.1:8091") == "127.0.0.1:8091 is not running (state down)"
    assert await error("broker-1") == "broker-1 is not running (state down)"
    for other in ("127.0.0.1:8000", "127.0.0.1:6650", "127.0.0.1:", "127.0.0.1:8091x"):
        assert (await error(other)).startswith(f"no child named {other!r}")


async def test_requests_under_way_end_with_the_instance(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Keep two requests open: one waits for a child that is not ready, one has not been sent."""
    slow = replace(child("spark"), ready=Ready("tcp", 1), on_demand=True)
    supervisor = made(tmp_path, [], child("zookeeper"), slow)
    ready = asyncio.Event()

    def banner(took_s: float) -> str:
        ready.set()
        return ""

    serving = asyncio.get_running_loop().create_task(supervisor.run(banner))
    await ready.wait()
    path = tmp_path / "control.sock"
    silent, writer = await asyncio.open_unix_connection(str(path))
    starting = asyncio.create_task(asyncio.to_thread(send_request, path, "start", "spark"))
    while supervisor._children["spark"].state is not ChildState.STARTING:
        await asyncio.sleep(0.001)
    supervisor._on_signal(signal.SIGINT)
    assert (await starting)["error"] == "the instance is stopping"
    assert await serving == 0
    [handler] = [task for task in asyncio.all_tasks() if "_serve" in repr(task.get_coro())]
    handler.cancel()  # as the end of the loop does
    await silent.read()
    assert handler.done()
    assert not handler.cancelled()
    assert not caplog.records
    writer.close()


async def test_an_instance_does_not_wait_for_an_optional_child_that_refuses_its_settings(
    tmp_path: Path,
) -> None:
    lines: list[str] = []
    refuses = child("worker", (sys.executable, "-c", "raise SystemExit(78)"))
    refuses = replace(refuses, serves="analyses", ready=Ready("tcp", 1))
    supervisor = made(tmp_path, lines, child("zookeeper"), refuses)
    serving = asyncio.get_running_loop().create_task(supervisor.run(lambda took_s: "ready"))
    await supervisor._children["worker"].refused.wait()
    # The task that reports what is waited for ends when nothing is.
    await until(lambda: not progress_tasks())
    assert "ready" in lines
    supervisor._on_signal(signal.SIGINT)
    assert await serving == 0


def progress_tasks() -> list[asyncio.Task[object]]:
    return [task for task in asyncio.all_tasks() if "_report_progress" in repr(task.get_coro())]


async def test_a_child_that_refuses_its_settings_ends_the_instance_with_its_words(
    tmp_path: Path,
) -> None:
    lines: list[str] = []
    complaint = "import sys; print('broker: setting x must be a number'); sys.exit(78)"
    supervisor = Supervisor(
        [child("zookeeper"), child("broker-1", (sys.executable, "-c", complaint))],
        log_dir=tmp_path,
        host="127.0.0.1",
        control_socket=tmp_path / "control.sock",
        report=lines.append,
    )
    # "alive" counts as ready at once; a port that no process opens does not
    spec = supervisor._children["broker-1"].spec
    supervisor._children["broker-1"].spec = replace(spec, ready=Ready("tcp", 1))
    code = await asyncio.wait_for(supervisor.run(lambda took_s: "ready"), 120)
    assert code == os.EX_CONFIG
    assert "broker-1 refuses its settings (exit 78: broker: setting x must be a number)" in lines
    assert "ready" not in lines


async def test_a_child_that_ends_is_named_with_its_last_error(tmp_path: Path) -> None:
    lines: list[str] = []
    talk = "print('12:00 CRITICAL bookie cannot start: no disk'); print('bye'); exit(3)"
    process = ChildProcess(
        child("bookie-1", (sys.executable, "-c", talk)), tmp_path, lines.append, "127.0.0.1"
    )
    process.start()
    while not lines:
        await asyncio.sleep(0.01)
    await process.stop()
    assert "bookie-1 ended (exit 3: 12:00 CRITICAL bookie cannot start: no disk); again" in lines[0]


@pytest.mark.parametrize("form", ["text", "json"])
def test_the_supervisors_messages_have_the_form_of_the_log(
    form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    configure_output(form)
    report("broker-1 is ready")
    line = capsys.readouterr().out
    if form == "json":
        assert json.loads(line)["message"] == "broker-1 is ready"
    else:
        assert line == "magnetar: broker-1 is ready\n"


async def test_a_program_that_is_not_there_is_named_and_tried_again(tmp_path: Path) -> None:
    lines: list[str] = []
    process = ChildProcess(child("redis", ("/nowhere/redis",)), tmp_path, lines.append, "127.0.0.1")
    process.start()
    while not lines:
        await asyncio.sleep(0.01)
    await process.stop()
    assert "cannot run /nowhere/redis: No such file or directory" in lines[0]


def made(tmp_path: Path, lines: list[str], *specs: Child) -> Supervisor:
    return Supervisor(
        specs,
        log_dir=tmp_path,
        host="127.0.0.1",
        control_socket=tmp_path / "control.sock",
        report=lines.append,
    )


def pids(supervisor: Supervisor) -> list[int]:
    children = supervisor._children.values()
    return [pid for process in children if (pid := process.describe()["pid"]) is not None]


@pytest.mark.parametrize("turns", range(16))
async def test_a_signal_in_the_midst_of_the_first_start_ends_everything(
    tmp_path: Path, turns: int
) -> None:
    names = ("zookeeper", "bookie-1", "broker-1", "gateway", "worker")
    specs = [child("zookeeper"), *(child(name, needs=("zookeeper",)) for name in names[1:])]
    supervisor = made(tmp_path, [], *specs)
    serving = asyncio.get_running_loop().create_task(supervisor.run(lambda took_s: "ready"))
    for _ in range(turns + 1):  # the first lets it take the signals
        await asyncio.sleep(0)
    supervisor._on_signal(signal.SIGINT)
    assert await asyncio.wait_for(serving, 120) == 0
    assert {process.state for process in supervisor._children.values()} == {ChildState.STOPPED}
    assert pids(supervisor) == []


async def test_a_second_ctrl_c_kills_children_that_stop_slowly(tmp_path: Path) -> None:
    lines: list[str] = []
    patient = [
        child(name, STUBBORN, stop_timeout_s=600.0) for name in ("worker", "broker-1", "zookeeper")
    ]
    supervisor = made(tmp_path, lines, *patient)
    serving = asyncio.get_running_loop().create_task(supervisor.run(lambda took_s: "ready"))
    while any(process.log.last_message() != "deaf" for process in supervisor._children.values()):
        await asyncio.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)
    while not any(line.startswith("stopping") for line in lines):
        await asyncio.sleep(0.01)
    supervisor._on_signal(signal.SIGTERM)
    assert lines[-1].startswith("stopping"), "a SIGTERM beside it says nothing new"
    os.kill(os.getpid(), signal.SIGINT)
    assert await asyncio.wait_for(serving, 120) == 0
    assert pids(supervisor) == []


async def test_a_child_stopped_before_its_first_start_waits_to_be_started(
    tmp_path: Path,
) -> None:
    late = replace(child("zookeeper"), ready=Ready("tcp", 1))  # no process listens there
    supervisor = made(tmp_path, [], late, child("gateway", needs=("zookeeper",)))
    serving = asyncio.get_running_loop().create_task(supervisor.run(lambda took_s: "ready"))
    zookeeper, gateway = supervisor._children.values()
    while not pids(supervisor):
        await asyncio.sleep(0.01)
    await gateway.stop()
    zookeeper.ready.set()
    for _ in range(10):
        await asyncio.sleep(0)
    assert gateway.state is ChildState.STOPPED
    gateway.start()
    await asyncio.wait_for(gateway.ready.wait(), 120)
    supervisor._on_signal(signal.SIGTERM)
    assert await asyncio.wait_for(serving, 120) == 0


async def test_a_child_that_starts_slowly_is_waited_for_while_it_is_at_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Measure the processor time: the child may print nothing for long."""
    now = [0.0]
    monkeypatch.setattr(supervising, "time", SimpleNamespace(monotonic=lambda: now[0]))
    spec = replace(child("spark"), ready=Ready("tcp", 1), on_demand=True)
    supervisor = made(tmp_path, [], spec)
    process = supervisor._children["spark"]
    looks: list[float] = []

    def activity() -> tuple[int, int, int]:
        looks.append(now[0])
        now[0] += 20
        if len(looks) == 6:  # 100 s after the start it is ready
            process.ready.set()
        return 0, len(looks), 0

    monkeypatch.setattr(process, "activity", activity)
    monkeypatch.setattr(supervising, "POLL_MAX_S", 0.001)
    assert await supervisor._until_ready(process) == ""
    process.ready.clear()
    looks.clear()
    monkeypatch.setattr(process, "activity", lambda: now.__setitem__(0, now[0] + 20) or (0, 7, 0))
    assert "spark was started but is not ready after 100 s" in await supervisor._until_ready(
        process
    )


async def test_an_instance_stops_when_a_part_ends_in_the_same_way_at_each_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_process, "DELAY_S", 0.001)
    lines: list[str] = []
    full = "import os; print(f'{os.getpid()} CRITICAL cannot start: no space'); exit(1)"
    bookie = replace(child("bookie-1", (sys.executable, "-c", full)), ready=Ready("tcp", 1))
    supervisor = made(tmp_path, lines, bookie, child("zookeeper"))
    assert await supervisor.run(lambda took_s: "ready") == 1
    [line] = [line for line in lines if "each attempt ended alike" in line]
    assert line.startswith("bookie-1 cannot start")
    assert "CRITICAL cannot start: no space" in line
    assert supervisor._children["bookie-1"].restarts == SAME_ENDS_MAX


async def test_a_part_that_was_ready_once_is_started_again_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_process, "DELAY_S", 0.001)
    monkeypatch.setattr(child_process, "DELAY_MAX_S", 0.001)
    process = ChildProcess(child("bookie-1"), tmp_path, lambda line: None, "127.0.0.1")
    process.start()
    await process.ready.wait()
    for number in range(1, SAME_ENDS_MAX + 2):
        while process.restarts < number:
            process.kill()
            await asyncio.sleep(0.01)
    assert not process.hopeless.is_set()
    await process.stop()


@pytest.mark.parametrize(("status", "starts"), [(1, 2), (os.EX_CONFIG, 1)])
async def test_a_request_for_a_child_that_always_fails_is_answered_as_soon_as_that_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, starts: int
) -> None:
    monkeypatch.setattr(child_process, "DELAY_S", 0.001)
    monkeypatch.setattr(supervising, "POLL_MAX_S", 0.01)
    complaint = f"import sys; print('java: cannot execute'); sys.exit({status})"
    spec = child("spark", (sys.executable, "-c", complaint), on_demand=True)
    supervisor = made(tmp_path, [], replace(spec, ready=Ready("tcp", 1)))
    process = supervisor._children["spark"]
    for round_ in range(1, 3):
        answer = await order(supervisor, "start", "spark")
        assert str(answer["error"]).startswith("spark ends while it starts: java: cannot execute;")
        assert process.restarts >= starts * round_
    await process.stop()


async def test_a_process_that_computes_is_at_work(tmp_path: Path) -> None:
    busy = (sys.executable, "-c", "while True: pass")
    async with running(tmp_path, child("spark", busy), []) as process:
        before = process.activity()
        while process.activity() == before:
            await asyncio.sleep(0.01)


async def test_an_instance_without_a_part_of_analyses_is_ready_and_names_it(
    tmp_path: Path,
) -> None:
    """Let a part end repeatedly before it ever was ready, so that it does not count as one that served."""
    lines: list[str] = []
    dies = (sys.executable, "-c", "raise PermissionError('no /dev/shm')")
    worker = replace(child("worker", dies, serves="analyses"), ready=Ready("tcp", 1))
    supervisor = made(tmp_path, lines, child("zookeeper"), worker)
    serving = asyncio.get_running_loop().create_task(supervisor.run(lambda took_s: "ready"))
    while not any("again in 1.0 s" in line for line in lines):
        await asyncio.sleep(0.01)
    supervisor._on_signal(signal.SIGINT)
    assert await serving == 0
    assert "ready" in lines
    assert not any(line.startswith("worker is ready") for line in lines)
    [first] = [line for line in lines if "again in 0.5 s" in line]
    assert "worker ended (exit 1: PermissionError: no /dev/shm); analyses cannot run" in first


async def test_a_part_of_analyses_that_refuses_its_settings_ends_no_other(
    tmp_path: Path,
) -> None:
    lines: list[str] = []
    refuses = (sys.executable, "-c", "print('no /dev/shm'); exit(78)")
    slow = replace(child("zookeeper"), ready=Ready("tcp", 1))
    worker = replace(child("worker", refuses, serves="analyses"), ready=Ready("tcp", 1))
    supervisor = made(tmp_path, lines, slow, worker)
    serving = asyncio.get_running_loop().create_task(supervisor.run(lambda took_s: "ready"))
    while not any("refuses" in line for line in lines):
        await asyncio.sleep(0.01)
    for _ in range(20):
        await asyncio.sleep(0)
    assert not supervisor.closing
    supervisor._on_signal(signal.SIGINT)
    assert await serving == 0
    assert "worker refuses its settings (exit 78: no /dev/shm): analyses cannot run" in lines

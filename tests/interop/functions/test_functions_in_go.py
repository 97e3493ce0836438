"""Apache's Go admin library, which pulsarctl and the Terraform provider use, deploys functions, connectors and packages
on an instance of ours, and reads what it expects."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.schemas.programs import UnavailableError
from tests.oracle.admin import go_library
from tests.oracle.conftest import Side
from tests.support.instance import Instance, running_instance
from tests.support.waiting import until_blocking

CODE = """from pulsar import Function


class Exclaim(Function):
    def process(self, input, context):
        context.incr_counter("seen", 1)
        context.record_metric("length", len(input))
        return f"{input}!"
"""
EX = ("public", "default", "ex")
GEN = ("public", "default", "gen")
KEEP = ("public", "default", "keep")
Calls = Callable[..., list[dict[str, Any]]]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    ours = tmp_path_factory.mktemp("ours")
    with running_instance(ours, MAGNETAR_FUNCTIONS_WORKER_ENABLED="true") as made:
        yield made


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    try:
        return go_library.build(tmp_path_factory.mktemp("library"))
    except UnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture
def calls(instance: Instance, program: str) -> Calls:
    """Make calls of the library, each a name and its arguments, and return what each gave."""
    side = Side("ours", "", instance.http)

    def make(*lines: Any) -> list[dict[str, Any]]:
        of_workers = lines[0][0].startswith("FunctionsWorker.")
        version = "v2" if of_workers else "v3"
        calls = [list(line) for line in lines]
        return go_library.answers(program, side, calls, version=version)

    return make


@pytest.fixture
def code(tmp_path: Path) -> str:
    path = tmp_path / "ex.py"
    path.write_text(CODE)
    return str(path)


def config(**changes: Any) -> dict[str, Any]:
    """Return a config of the function ``ex``, as pulsarctl makes it."""
    tenant, namespace, name = EX
    of = {"tenant": tenant, "namespace": namespace, "name": name, "className": "ex.Exclaim"}
    switches = {"autoAck": True, "cleanupSubscription": True, "forwardSourceMessageProperty": True}
    return {**of, **switches, "runtime": "PYTHON", "parallelism": 1, **changes}


def done(answers: list[dict[str, Any]]) -> list[Any]:
    """Return the only value of each answer, None for a call without one; no call may have failed."""
    assert [answer for answer in answers if "error" in answer] == []
    return [(answer.get("is") or [None])[0] for answer in answers]


def value(calls: Calls, *line: Any) -> Any:
    return done(calls(line))[0]


def test_a_function_lives_its_life(calls: Calls, code: str, tmp_path: Path) -> None:
    inputs = {"inputs": ["in", "more"], "output": "out", "userConfig": {"k": 1}}
    created = config(py=code, **inputs)
    done(calls(("Functions.CreateFunc", created, code)))
    names, shown = done(calls(("Functions.GetFunctions", *EX[:2]), ("Functions.GetFunction", *EX)))
    assert names == ["ex"]
    assert (shown["runtime"], shown["userConfig"], shown["parallelism"]) == ("PYTHON", {"k": 1}, 1)

    def runs() -> bool:
        return int(value(calls, "Functions.GetFunctionStatus", *EX)["numRunning"]) == 1

    until_blocking(runs, "the instance runs")
    stream = tmp_path / "value"
    stream.write_text("from a file")
    done(  # the library returns nothing of the output
        calls(
            ("Functions.TriggerFunction", *EX, "in", "hi", ""),
            ("Functions.TriggerFunction", *EX, "more", "", str(stream)),
        )
    )
    status = value(calls, "Functions.GetFunctionStatusWithInstanceID", *EX, 0)
    assert (status["running"], status["numReceived"], status["error"]) == (True, 2, "")
    stats, of_instance = done(
        calls(
            ("Functions.GetFunctionStats", *EX),
            ("Functions.GetFunctionStatsWithInstanceID", *EX, 0),
        )
    )
    assert (stats["receivedTotal"], of_instance["processedSuccessfullyTotal"]) == (2, 2)
    done(calls(("Functions.PutFunctionState", *EX, {"key": "k", "stringValue": "v"})))
    counter, text = done(
        calls(("Functions.GetFunctionState", *EX, "seen"), ("Functions.GetFunctionState", *EX, "k"))
    )
    assert (counter["numberValue"], text["stringValue"]) == (2, "v")
    done(
        calls(
            ("Functions.StopFunction", *EX),
            ("Functions.StartFunction", *EX),
            ("Functions.StopFunctionWithID", *EX, 0),
            ("Functions.StartFunctionWithID", *EX, 0),
        )
    )
    until_blocking(runs, "the instance runs again")
    done(calls(("Functions.RestartFunction", *EX), ("Functions.RestartFunctionWithID", *EX, 0)))
    changed = config(parallelism=2, output="out2")
    done(calls(("Functions.UpdateFunction", changed, code, {"updateAuthData": False})))
    assert value(calls, "Functions.GetFunction", *EX)["parallelism"] == 2
    copy = tmp_path / "copy.py"
    done(calls(("Functions.DownloadFunctionByNs", str(copy), *EX)))
    assert copy.read_text() == CODE
    done(calls(("Functions.DeleteFunction", *EX)))
    assert value(calls, "Functions.GetFunctions", *EX[:2]) == []


def test_refusals_have_apaches_status_and_text(calls: Calls, code: str) -> None:
    missing = (*EX[:2], "missing")
    refused = calls(
        ("Functions.GetFunction", *missing),
        ("Functions.CreateFunc", config(name="new"), code),
        ("Functions.CreateFunc", config(name="new", inputs=["a"], output="a"), code),
        ("Functions.TriggerFunction", *missing, "in", "hi", ""),
        ("Sinks.GetSink", *missing),
        ("Sources.GetSource", *missing),
    )
    assert [(answer["code"], answer["error"]) for answer in refused] == [
        (404, "Function missing doesn't exist"),
        (400, "No input topic(s) specified for the function"),
        (
            400,
            "Output topic a is also being used as an input topic (topics must be one or the other)",
        ),
        (404, "Function missing doesn't exist"),
        (404, "Sink missing doesn't exist"),
        (404, "Source missing doesn't exist"),
    ]


def test_a_source_and_a_sink_live_their_lives(calls: Calls, tmp_path: Path) -> None:
    of = {"tenant": "public", "namespace": "default", "parallelism": 1}
    source = {**of, "name": "gen", "archive": "builtin://generator", "topicName": "gout"}
    folder = tmp_path / "kept"
    sink = {
        **{**of, "name": "keep", "archive": "builtin://files", "inputs": ["gout"]},
        **{"configs": {"folder": str(folder)}, "autoAck": True, "cleanupSubscription": True},
    }
    done(calls(("Sources.CreateSource", source, ""), ("Sinks.CreateSink", sink, "")))
    sources, sinks, shown, kept = done(
        calls(
            ("Sources.ListSources", "public", "default"),
            ("Sinks.ListSinks", "public", "default"),
            ("Sources.GetSource", *GEN),
            ("Sinks.GetSink", *KEEP),
        )
    )
    assert (sources, sinks, shown["archive"]) == (["gen"], ["keep"], "builtin://generator")
    assert kept["configs"] == {"folder": str(folder)}

    def run() -> bool:
        both = done(calls(("Sources.GetSourceStatus", *GEN), ("Sinks.GetSinkStatus", *KEEP)))
        return [status["numRunning"] for status in both] == [1, 1]

    until_blocking(run, "both run")
    written, read = done(
        calls(("Sources.GetSourceStatusWithID", *GEN, 0), ("Sinks.GetSinkStatusWithID", *KEEP, 0))
    )
    assert (written["running"], read["running"]) == (True, True)
    for verb in ("Stop", "Start", "Restart"):
        for group, kind, name in (("Sources", "Source", GEN), ("Sinks", "Sink", KEEP)):
            if verb == "Restart":
                until_blocking(run, "both run again")
            done(calls((f"{group}.{verb}{kind}", *name), (f"{group}.{verb}{kind}WithID", *name, 0)))
    options = {"updateAuthData": False}
    done(
        calls(
            ("Sources.UpdateSource", {**source, "parallelism": 2}, "", options),
            ("Sinks.UpdateSink", {**sink, "parallelism": 2}, "", options),
        )
    )
    assert value(calls, "Sinks.GetSinkStatus", *KEEP)["numInstances"] == 2
    done(calls(("Sources.DeleteSource", *GEN), ("Sinks.DeleteSink", *KEEP)))
    names = [
        {connector["name"] for connector in listed}
        for listed in done(calls(("Sources.GetBuiltInSources",), ("Sinks.GetBuiltInSinks",)))
    ]
    assert "generator" in names[0]
    assert "files" in names[1]
    done(calls(("Sources.ReloadBuiltInSources",), ("Sinks.ReloadBuiltInSinks",)))


def test_a_package_is_stored_described_fetched_and_run(
    calls: Calls, code: str, tmp_path: Path
) -> None:
    package = "function://public/default/packed@v1"
    copy = tmp_path / "copy.py"
    done(calls(("Packages.Upload", package, code, "d", "me", {"a": "b"})))
    packages, versions, metadata, _ = done(
        calls(
            ("Packages.List", "function", "public/default"),
            ("Packages.ListVersions", "function://public/default/packed"),
            ("Packages.GetMetadata", package),
            ("Packages.Download", package, str(copy)),
        )
    )
    assert "packed" in packages
    assert (versions, copy.read_text()) == (["v1"], CODE)
    assert (metadata["description"], metadata["properties"]) == ("d", {"a": "b"})
    done(calls(("Packages.UpdateMetadata", package, "e", "you", {})))
    assert value(calls, "Packages.GetMetadata", package)["contact"] == "you"
    created = config(name="packed", inputs=["packed-in"])
    done(calls(("Functions.CreateFuncWithURL", created, package)))
    update = config(name="packed", parallelism=2)
    done(calls(("Functions.UpdateFunctionWithURL", update, package, {"updateAuthData": False})))
    packed = (*EX[:2], "packed")
    done(calls(("Functions.DeleteFunction", *packed), ("Packages.Delete", package)))
    uploaded = "function://public/default/uploaded@1"
    done(calls(("Functions.Upload", code, uploaded)))
    copy.unlink()
    done(calls(("Functions.DownloadFunction", uploaded, str(copy)), ("Packages.Delete", uploaded)))
    assert copy.read_text() == CODE


def test_the_workers_are_shown(calls: Calls) -> None:
    cluster, leader, assignments, stats, metrics = done(
        calls(
            ("FunctionsWorker.GetCluster",),
            ("FunctionsWorker.GetClusterLeader",),
            ("FunctionsWorker.GetAssignments",),
            ("FunctionsWorker.GetFunctionsStats",),
            ("FunctionsWorker.GetMetrics",),
        )
    )
    assert cluster == [leader]
    assert leader["workerId"] == "functions-worker"
    assert set(assignments) <= {"functions-worker"}
    assert {row["name"].rpartition("/")[0] for row in stats} <= {"public/default"}
    assert len(metrics) == 1

"""pulsar-admin 4.0.8 deploys functions, sources and packages on an instance of ours, and prints what it expects."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.bench.contenders import apache_missing
from tests.interop.pulsar_shell import LEAN
from tests.oracle.servers import PEER
from tests.support.instance import Instance, running_instance
from tests.support.waiting import until_blocking

CODE = """from pulsar import Function


class Exclaim(Function):
    def process(self, input, context):
        context.incr_counter("seen", 1)
        return f"{input}!"
"""
Tool = Callable[..., str]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    ours = tmp_path_factory.mktemp("ours")
    with running_instance(ours, MAGNETAR_FUNCTIONS_WORKER_ENABLED="true") as made:
        yield made


@pytest.fixture
def tool(instance: Instance) -> Tool:
    """Run the tool and return its output; fails with the tool's own error."""
    reason = apache_missing()
    if reason is not None:
        pytest.skip(f"Apache's tools are not at hand: {reason}")

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, str(PEER), "admin", "--http", instance.http, *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, **LEAN},
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.fixture
def code(tmp_path: Path) -> str:
    path = tmp_path / "ex.py"
    path.write_text(CODE)
    return str(path)


def test_a_function_lives_its_life(tool: Tool, code: str, tmp_path: Path) -> None:
    name = ("--tenant", "public", "--namespace", "default", "--name", "ex")
    created = tool(
        *("functions", "create", *name, "--py", code, "--classname", "ex.Exclaim"),
        *("--inputs", "in,more", "--output", "out", "--user-config", '{"k": 1}'),
    )
    assert "Created successfully" in created
    assert tool("functions", "list").split() == ["ex"]
    shown = json.loads(tool("functions", "get", *name))
    assert (shown["runtime"], shown["userConfig"]) == ("PYTHON", {"k": 1})

    def runs() -> bool:
        return int(json.loads(tool("functions", "status", *name))["numRunning"]) == 1

    until_blocking(runs, "the instance runs")
    triggered = tool("functions", "trigger", *name, "--topic", "in", "--trigger-value", "hi")
    assert triggered.strip() == "hi!"
    assert json.loads(tool("functions", "querystate", *name, "-k", "seen"))["numberValue"] == 1
    tool("functions", "putstate", *name, "-s", '{"key": "k", "stringValue": "v"}')
    assert json.loads(tool("functions", "querystate", *name, "-k", "k"))["stringValue"] == "v"
    assert json.loads(tool("functions", "stats", *name))["instances"]
    assert "Updated successfully" in tool("functions", "update", *name, "--parallelism", "2")
    for verb in ("stop", "start", "restart"):
        assert "successfully" in tool("functions", verb, *name)
    target = tmp_path / "copy.py"
    tool("functions", "download", *name, "--destination-file", str(target))
    assert target.read_text() == CODE
    assert "Deleted successfully" in tool("functions", "delete", *name)
    assert tool("functions", "list").split() == []


def test_a_package_is_stored_described_fetched_and_run(
    tool: Tool, code: str, tmp_path: Path
) -> None:
    package = "function://public/default/pk g.ü@v 1"
    tool("packages", "upload", package, "--path", code, "--description", "d", "-Pa=b")
    listed = tool("packages", "list", "public/default", "--type", "function")
    assert listed.splitlines() == ["pk g.ü"]
    assert tool("packages", "list-versions", package).splitlines() == ["v 1"]
    tool("packages", "update-metadata", package, "--description", "e")
    assert json.loads(tool("packages", "get-metadata", package))["description"] == "e"
    target = tmp_path / "copy.py"
    tool("packages", "download", package, "--path", str(target))
    assert target.read_text() == CODE
    function = ("--name", "packed", "--py", package, "--classname", "ex.Exclaim")
    tool("functions", "create", *function, "--inputs", "packed-in")
    tool("functions", "delete", "--name", "packed")
    tool("packages", "delete", package)
    assert tool("packages", "list", "public/default", "--type", "function").split() == []


def test_a_built_in_source_is_listed_and_deployed(tool: Tool) -> None:
    assert "generator" in tool("sources", "available-sources")
    source = ("--name", "gen", "--source-type", "generator", "--destination-topic-name", "gout")
    assert "Created successfully" in tool("sources", "create", *source)
    assert json.loads(tool("sources", "get", "--name", "gen"))["archive"] == "builtin://generator"
    assert json.loads(tool("sources", "status", "--name", "gen"))["numInstances"] == 1
    assert "Delete source successfully" in tool("sources", "delete", "--name", "gen")
    assert json.loads(tool("sinks", "list")) == []

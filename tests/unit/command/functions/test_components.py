"""``functions``, ``sources``, ``sinks`` and ``packages``: the requests that they make, and what they print."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from gateway.http.forms.multipart import parts_of
from magnetar.command.connecting import admin as module
from magnetar.command.exits import Exit
from magnetar.command.functions.forms import FormBody, config_of, package_path
from tests.unit.command.test_administration import RecordingAdmin, run

F = "/admin/v3/functions/public/default/ex"
STATUS = {
    "numInstances": 2,
    "numRunning": 1,
    "instances": [
        {
            "instanceId": 0,
            "status": {
                "running": True, "numRestarts": 0, "numReceived": 3, "numUserExceptions": 1,
                "numSystemExceptions": 1, "numSuccessfullyProcessed": 2, "workerId": "w",
            },
        },
        {"instanceId": 1, "status": {"running": False, "error": "it\nended"}},
    ],
}  # fmt: skip


class Forms(RecordingAdmin):
    """A REST interface that also notes requests with bytes. ``status``: of its answers to them."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[tuple[str, str, dict[str, Any]]] = []
        self.status, self.body = 204, b""

    async def answer_bytes(
        self, method: str, path: str, data: bytes, content_type: str
    ) -> tuple[int, bytes]:
        parts = parts_of(data, content_type) if content_type else {}
        shown = {name: (part.file_name, bytes(part.content)) for name, part in parts.items()}
        self.sent.append((method, path, shown))
        return self.status, self.body


@pytest.fixture
def rest(monkeypatch: pytest.MonkeyPatch) -> Forms:
    recording = Forms()

    @asynccontextmanager
    async def administered(address: Any, timeout_s: float = 0) -> AsyncIterator[Forms]:
        yield recording

    monkeypatch.setattr(module, "administered", administered)
    return recording


@pytest.fixture
def code(tmp_path: Path) -> str:
    path = tmp_path / "ex.py"
    path.write_bytes(b"code")
    return str(path)


def done(*arguments: str) -> Result:
    result = run(*arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    return result


def failed(*arguments: str) -> tuple[int, str]:
    """Return the exit status and the error of a command."""
    result = run(*arguments)
    assert result.exit_code != 0
    return result.exit_code, result.stderr


def test_a_function_is_created_from_a_file_with_its_options(rest: Forms, code: str) -> None:
    done("functions", "create", "ex", code, "--class", "ex.Ex", "--input", "in", "--output", "out",
         "--parallelism", "2", "--set", 'userConfig={"k": 1}', "--set", "logTopic=log")  # fmt: skip
    ((method, path, parts),) = rest.sent
    assert (method, path, parts["data"]) == ("POST", F, ("ex.py", b"code"))
    assert json.loads(parts["functionConfig"][1]) == {
        "className": "ex.Ex",
        "inputs": ["in"],
        "output": "out",
        "parallelism": 2,
        "userConfig": {"k": 1},
        "logTopic": "log",
    }


def test_a_file_of_a_config_is_overruled_by_options(rest: Forms, tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("className: a.A\nparallelism: 3\nconfigs: {folder: x}\n")
    done("sinks", "update", "t/n/k", "--config", str(file), "--parallelism", "1", "--archive",
         "builtin://files")  # fmt: skip
    ((method, path, parts),) = rest.sent
    assert (method, path) == ("PUT", "/admin/v3/sinks/t/n/k")
    assert json.loads(parts["sinkConfig"][1]) == {
        "className": "a.A",
        "parallelism": 1,
        "configs": {"folder": "x"},
        "archive": "builtin://files",
    }


def test_code_may_be_a_package_and_the_output_of_a_source_is_its_topic(rest: Forms) -> None:
    url = "source://public/default/g@1"
    done("sources", "create", "g", "--package", url, "--class", "g.G", "--output", "out")
    ((_, _, parts),) = rest.sent
    assert parts["url"] == ("", url.encode())
    assert json.loads(parts["sourceConfig"][1]) == {"className": "g.G", "topicName": "out"}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("functions", "create", "a/b", "x.py"), "is no namespace"),
        (("functions", "create", "a/b/", "x.py"), "is no name"),
        (("functions", "create", "ex", "/no/such.py"), "cannot read /no/such.py"),
        (("functions", "create", "ex", "--set", "x"), "it is NAME=VALUE"),
        (("functions", "create", "ex", "--config", "/no/such"), "cannot read /no/such"),
        (("functions", "list", "public"), "is no namespace"),
        (("packages", "show", "ex"), "Invalid package name 'ex'"),
        (("packages", "describe", "function://a/b/c@1", "--property", "=x"), "it is NAME=VALUE"),
    ],
)
def test_a_usage_that_is_wrong_is_named_before_a_request(
    rest: Forms, arguments: tuple[str, ...], text: str
) -> None:
    status, error = failed(*arguments)
    assert (status, text in error) == (Exit.USAGE, True), error
    assert (rest.calls, rest.sent) == ([], [])


def test_file_and_package_exclude_each_other(rest: Forms, code: str) -> None:
    _, error = failed("functions", "create", "ex", code, "--package", "function://a/b/c@1")
    assert "exclude each other" in error


def test_a_refusal_of_the_gateway_is_the_error(rest: Forms, code: str) -> None:
    rest.status, rest.body = 400, b'{"reason": "Function ex already exists"}'
    assert "Function ex already exists" in failed("functions", "create", "ex", code)[1]


@pytest.mark.parametrize(
    ("arguments", "request_made"),
    [
        (("functions", "start", "ex"), ("POST", f"{F}/start", None)),
        (("functions", "stop", "ex", "--instance", "1"), ("POST", f"{F}/1/stop", None)),
        (
            ("sinks", "restart", "a b"),
            ("POST", "/admin/v3/sinks/public/default/a%20b/restart", None),
        ),
        (("functions", "delete", "ex", "-y"), ("DELETE", F, None)),
        (
            ("packages", "delete", "function://a/b/c d@1 2", "-y"),
            ("DELETE", "/admin/v3/packages/function/a/b/c%20d/1%202", None),
        ),
        (
            ("packages", "describe", "sink://a/b/c@1", "--contact", "me", "--property", "x=y=z"),
            (
                "PUT",
                "/admin/v3/packages/sink/a/b/c/1/metadata",
                {"description": "", "contact": "me", "properties": {"x": "y=z"}},
            ),
        ),
    ],
)
def test_the_request_of_a_command(
    rest: Forms, arguments: tuple[str, ...], request_made: tuple[str, str, Any]
) -> None:
    done(*arguments)
    assert rest.calls == [request_made]


def test_a_deletion_must_be_confirmed(rest: Forms) -> None:
    assert "not confirmed" in failed("functions", "delete", "ex")[1]
    assert "not confirmed" in failed("packages", "delete", "function://a/b/c@1")[1]
    assert rest.calls == []


def test_status_is_a_row_for_each_instance(rest: Forms) -> None:
    rest.answers[f"{F}/status"] = STATUS
    lines = done("functions", "status", "ex").stdout.splitlines()
    assert lines[0] == "1 of 2 run"
    assert lines[2].split() == ["0", "yes", "0", "3", "2", "2", "w"]
    assert lines[3].split() == ["1", "no", "?", "?", "?", "0"]
    assert lines[4] == "instance 1: it\\nended"
    assert json.loads(done("functions", "status", "ex", "--json").stdout) == STATUS


def test_names_and_configs_are_printed(rest: Forms) -> None:
    rest.answers["/admin/v3/functions/public/default"] = ["a", "b"]
    rest.answers["/admin/v3/sinks/public/default"] = []
    rest.answers[F] = {"name": "ex"}
    rest.answers[f"{F}/stats"] = {"receivedTotal": 1}
    assert done("functions", "list").stdout == "a\nb\n"
    assert done("sinks", "list").stdout == "no sinks\n"
    assert json.loads(done("functions", "show", "ex").stdout) == {"name": "ex"}
    assert json.loads(done("functions", "stats", "ex").stdout) == {"receivedTotal": 1}


def test_built_in_connectors_are_listed(rest: Forms) -> None:
    known = [{"name": "files", "description": "Files of a folder", "sinkClass": "x"}]
    rest.answers["/admin/v3/sinks/builtinsinks"] = known
    assert "files  Files of a folder" in done("sinks", "available").stdout


def test_a_function_is_triggered_and_its_state_read_and_put(rest: Forms) -> None:
    rest.status, rest.body = 200, b"hi!\x1b"
    assert done("functions", "trigger", "ex", "hi", "--topic", "in").stdout == "hi!\\x1b\n"
    assert rest.sent[0][2] == {"data": ("", b"hi"), "topic": ("", b"in")}
    rest.answers[f"{F}/state/a%2Fb"] = {"key": "a/b", "stringValue": "v", "version": 1}
    assert done("functions", "state", "ex", "a/b", "--put", "v").stdout == "v\n"
    assert json.loads(rest.sent[1][2]["state"][1]) == {"key": "a/b", "stringValue": "v"}


def test_packages_are_uploaded_and_downloaded(rest: Forms, code: str, tmp_path: Path) -> None:
    url = "function://public/default/a b@1"
    done("packages", "upload", url, code, "--description", "d")
    method, path, parts = rest.sent[0]
    assert (method, path) == ("POST", "/admin/v3/packages/function/public/default/a%20b/1")
    assert parts["file"] == ("ex.py", b"code")
    assert json.loads(parts["metadata"][1])["description"] == "d"
    rest.status, rest.body = 200, b"content"
    target = tmp_path / "new.py"
    done("packages", "download", url, str(target))
    assert target.read_bytes() == b"content"
    assert "exists" in failed("packages", "download", url, str(target))[1]
    done("functions", "download", "ex", str(tmp_path / "other.py"))
    assert rest.sent[-1][1] == f"{F}/download"


def test_versions_are_those_of_a_name(rest: Forms) -> None:
    rest.answers["/admin/v3/packages/function/public/default/a"] = ["1", "2"]
    assert done("packages", "versions", "function://public/default/a").stdout == "1\n2\n"
    rest.answers["/admin/v3/packages/sink/public/default"] = []
    assert done("packages", "list", "--type", "sink").stdout == "no packages\n"


def test_the_name_of_a_file_cannot_end_its_header() -> None:
    form = FormBody()
    form.file("data", b"x", 'a"\r\nX: y')
    assert parts_of(form.data, form.content_type)["data"].file_name == "a_X: y"


def test_fields_of_a_config_are_json_or_text() -> None:
    assert config_of(None, ("a=1", "b=x", 'c={"d": []}'), e=None, f=()) == {
        "a": 1,
        "b": "x",
        "c": {"d": []},
    }
    assert package_path("function://a/b/c") == "/admin/v3/packages/function/a/b/c/latest"


def test_a_local_run_checks_the_config_first(code: str) -> None:
    status, error = failed("functions", "localrun", code, "--class", "ex.Ex")
    assert (status, "No input topic(s) specified" in error) == (Exit.USAGE, True)

"""The files of the image: settings that must be those of an instance, and the check of health."""

import importlib.util
import re
import shlex
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from gateway.standalone.plan import MALLOC, InstanceOptions, _spark
from gateway.standalone.settings import StandaloneSettings
from tests.integration.deploy.image_builder import CONTAINERFILE, instructions
from tests.support.import_graph import ROOT

IMAGE = ROOT / "deploy" / "image"


@pytest.fixture
def health() -> ModuleType:
    spec = importlib.util.spec_from_file_location("health", IMAGE / "health.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_instructions_are_read_as_lines() -> None:
    text = "# remark\nRUN a \\\n && b\n\nUSER x\n"
    assert list(instructions(text)) == [("RUN", "a  && b"), ("USER", "x")]


def test_the_image_has_the_memory_settings_of_an_instance_and_no_rights() -> None:
    steps = list(instructions(CONTAINERFILE.read_text()))
    given = dict(
        word.split("=") for name, rest in steps if name == "ENV" for word in shlex.split(rest)
    )
    assert {name: value for name, value in given.items() if name.startswith("MALLOC")} == MALLOC
    assert [rest for name, rest in steps if name == "USER"] == ["10001:10001"]
    assert [name for name, _ in steps[-3:]] == ["ENTRYPOINT", "CMD", "HEALTHCHECK"]


def test_spark_of_the_image_has_the_settings_of_an_instance(tmp_path: Any) -> None:
    options = InstanceOptions(tmp_path, StandaloneSettings())
    child = _spark(options, 15002, {"SPARK_REMOTE": ""})
    of_instance = {word for word in child.argv if "=" in word}
    text = (IMAGE / "spark.sh").read_text().replace("$data", str(tmp_path)).replace("\\\n", " ")
    quick = re.search(r'^quick="(.*)"$', text, re.MULTILINE)
    assert quick is not None
    text = re.sub(r"\$\{SPARK_MEMORY:-(\w+)\}", r"\1", text.replace("$quick", quick[1]))
    of_image = {word for word in shlex.split(text.split("exec ")[1]) if word.startswith("spark.")}
    log = "-Dlog4j2.configurationFile"
    of_instance = {re.sub(rf"{log}=\S+ ", "", word) for word in of_instance}
    assert of_image == of_instance


@pytest.mark.parametrize(
    ("command", "program"),
    [
        (
            b"/opt/magnetar/bin/python\0/opt/magnetar/bin/magnetar\0bookie\0--port\x003181\0",
            "bookie",
        ),
        (
            b"/opt/magnetar/bin/python\0/opt/magnetar/bin/magnetar\0gateway\0--host\x000.0.0.0\0",
            "gateway",
        ),
        (b"/bin/sh\0", ""),
    ],
)
def test_the_program_of_a_container_is_that_of_its_command_line(
    health: ModuleType, command: bytes, program: str
) -> None:
    assert health.program_of(command) == program


def test_a_program_that_does_not_answer_is_not_healthy_for_a_reason(
    health: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        health,
        "_load",
        lambda *_: SimpleNamespace(
            node=SimpleNamespace(bind_address="0.0.0.0", broker_http_port=1)
        ),
    )
    assert health.main(["broker"]) == 1
    assert "http://127.0.0.1:1/ready" in capsys.readouterr().out
    assert health.main(["worker"]) == 0
    assert health.main(["nothing"]) == 1

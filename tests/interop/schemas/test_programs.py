"""Schemas with the official clients in Python, Java and Go: every case has the outcome that it has with Apache Pulsar.

``outcomes.json`` holds the outcomes recorded there (``tests/oracle/client/test_schema_programs.py`` checks them); the
cases are in ``python_cases.py``, ``java`` and ``go``.
"""

import json
import re
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.bench.contenders import apache_missing
from tests.interop.pulsar_shell import Shell
from tests.interop.schemas.programs import (
    LANGUAGES,
    OUTCOMES,
    Programs,
    UnavailableError,
    prepare,
)
from tests.support.instance import Instance
from tests.support.instances.shared import SharedInstance

RUN = "run-"

pytestmark = [pytest.mark.slow]


@pytest.fixture(scope="module")
def instance(killed_instance: SharedInstance) -> Iterator[Instance]:
    with killed_instance.harmed() as killed:
        prepare(lambda *call: killed.rest(*call)[0], RUN)
        yield killed


@pytest.fixture(scope="module")
def programs(instance: Instance, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    new_programs = Programs(instance.url, RUN, tmp_path_factory.mktemp("programs"))
    yield new_programs
    new_programs.close()


@pytest.fixture(scope="module")
def written(programs: Programs) -> Callable[[str], None]:
    """A function that makes the program of a language write the messages that the others read, once."""

    @cache
    def write(language: str) -> None:
        assert programs[language].seen("write_for_others") == "written"

    return write


@pytest.mark.parametrize(
    ("language", "case"),
    [(language, case) for language in LANGUAGES for case in OUTCOMES[language]],
)
def test_a_case_has_the_outcome_recorded_with_apache(
    programs: Programs, written: Callable[[str], None], language: str, case: str
) -> None:
    try:
        program = programs[language]
        if case.startswith("read_"):
            written(case.removeprefix("read_"))
    except UnavailableError as error:
        pytest.skip(str(error))
    assert program.seen(case) == OUTCOMES[language][case]


def test_an_invalid_definition_is_refused_without_affecting_others(programs: Programs) -> None:
    """Use a default that does not have its field's type. Apache's broker does not answer it for a later version."""
    no = "IncompatibleSchema"
    assert programs["python"].seen("broken") == 2 * ["taken", no, no, "taken", "taken", no]


def test_producers_of_several_versions_survive_a_killed_broker(
    instance: Instance, programs: Programs
) -> None:
    """Check that no message is lost, and that every message keeps the version by which it was written."""
    attached = []
    for language in LANGUAGES:
        try:
            assert programs[language].seen("attach") == "sending"
        except UnavailableError:
            continue
        attached.append(language)
    pid = instance.child("broker-1")["pid"]
    instance.control("kill", "broker-1")
    until = time.monotonic() + 60
    while instance.child("broker-1")["pid"] in (pid, None) and time.monotonic() < until:
        time.sleep(0.05)
    instance.wait_running("broker-1")
    seen = {language: programs[language].seen("after_restart") for language in attached}
    wanted = {
        "python": [True, True, [], [], "IncompatibleSchema"],
        "java": [True, True, True, "IncompatibleSchemaException"],
        "go": [True, True, True, "IncompatibleSchema"],
    }
    assert seen == {language: wanted[language] for language in attached}


USER = (
    '{"type":"record","name":"User","fields":'
    '[{"name":"name","type":"string"},{"name":"age","type":"int"}]}'
)
TOOL_TOPIC = f"persistent://public/schemas/{RUN}tool"
SENT = r"1 messages successfully produced"
ANN = """-m '{"name":"ann","age":1}' -s ;"""  # a separator that does not cut the message
TOOL: list[tuple[str, str]] = [  # a command of pulsar-client and a pattern of what it prints
    (f"produce -vs 'avro:{USER}' {ANN} {TOOL_TOPIC}-avro", SENT),
    (f"produce -vs 'json:{USER}' {ANN} {TOOL_TOPIC}-json", SENT),
    (f"produce -ks string -vs 'avro:{USER}' -kvet separated -kvk k {ANN} {TOOL_TOPIC}-pair", SENT),
    (f"produce -ks string -vs 'json:{USER}' -kvet inline -kvk k {ANN} {TOOL_TOPIC}-inline", SENT),
    (f"produce -vs string -m word {TOOL_TOPIC}-avro", r"IncompatibleSchemaException"),
    (f"consume -st auto_consume -s s -p Earliest {TOOL_TOPIC}-avro", r"content:\{name=ann, age=1}"),
    (f"consume -st auto_consume -s s -p Earliest {TOOL_TOPIC}-json", r"content:\{name=ann, age=1}"),
    (
        f"consume -st auto_consume -s s -p Earliest {TOOL_TOPIC}-pair",
        r"key:\[aw==], .*content:\{key=\{value=k, .*}, value=\{name=ann, age=1}}",
    ),
    (
        f"consume -st auto_consume -s s -p Earliest {TOOL_TOPIC}-inline",
        r"key:\[null], .*content:\{key=\{value=k, .*}, value=\{name=ann, age=1}}",
    ),
    (f"read -st auto_consume -m earliest {TOOL_TOPIC}-avro", r"content:\{name=ann, age=1}"),
]


def test_apaches_tool_produces_and_consumes_with_schemas(
    instance: Instance, tmp_path: Path
) -> None:
    reason = apache_missing()
    if reason is not None:
        pytest.skip(f"Apache's tools are not at hand: {reason}")
    shell = Shell(instance.url, instance.http, tmp_path)
    printed = shell.run([f"client {command}" for command, _ in TOOL])
    wrong = {
        command: text[-2000:]
        for (command, pattern), text in zip(TOOL, printed, strict=True)
        if not re.search(pattern, text)
    }
    assert not wrong, json.dumps(wrong, indent=1)

"""What the official clients in Python, Java and Go see of schemas, each case as they see it of Apache Pulsar.

``outcomes.json`` is what they observed there (``tests/oracle/client/test_schema_programs.py`` looks again); the cases
are in ``python_cases.py``, ``java`` and ``go``.
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
    with killed_instance.harmed() as made:
        prepare(lambda *call: made.rest(*call)[0], RUN)
        yield made


@pytest.fixture(scope="module")
def programs(instance: Instance, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    made = Programs(instance.url, RUN, tmp_path_factory.mktemp("programs"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def written(programs: Programs) -> Callable[[str], None]:
    """Lets a language write what the others read, once."""

    @cache
    def write(language: str) -> None:
        assert programs[language].seen("write_for_others") == "written"

    return write


@pytest.mark.parametrize(
    ("language", "case"),
    [(language, case) for language in LANGUAGES for case in OUTCOMES[language]],
)
def test_a_client_sees_what_it_sees_of_apache(
    programs: Programs, written: Callable[[str], None], language: str, case: str
) -> None:
    try:
        program = programs[language]
        if case.startswith("read_"):
            written(case.removeprefix("read_"))
    except UnavailableError as error:
        pytest.skip(str(error))
    assert program.seen(case) == OUTCOMES[language][case]


def test_a_definition_that_is_none_is_refused_and_hurts_nothing_else(programs: Programs) -> None:
    """A default that is none of its type. Apache's broker does not answer it where there is a schema already."""
    no = "IncompatibleSchema"
    assert programs["python"].seen("broken") == 2 * ["taken", no, no, "taken", "taken", no]


def test_producers_of_several_versions_outlive_a_broker_that_is_killed(
    instance: Instance, programs: Programs
) -> None:
    """Nothing is lost, and every message keeps the version it was written by."""
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

"""Apache's pulsar-admin, as published, about schemas and their policies: the same output of ours as of Apache's."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interop.pulsar_shell import Shell
from tests.oracle.conftest import Side
from tests.oracle.schemas.script import Given, pair, record
from tests.oracle.servers import LEAN_PEER, PEER

pytestmark = [pytest.mark.slow, pytest.mark.long]

NAMESPACE = "schemas/tool"
TOPIC = f"persistent://{NAMESPACE}/t"
A = record(("a", "int"))
FILES: dict[str, Given] = {
    "a": A,
    "ab": record(("a", "int"), ("b", "int", 0)),
    "text": record(("a", "string")),
    "string": Given(1),
    "pair": pair(A, Given(1)),
    "broken": A._replace(data=b"{"),
}


def commands(folder: Path) -> list[str]:
    """``folder`` has a file for each of FILES."""
    home = Path(os.environ.get("PEER_HOME", "~/.cache/magnetar-peer")).expanduser()
    (jar,) = home.glob("apache-pulsar-*/lib/*pulsar-client-admin-api-*.jar")
    uploads = [
        f"admin schemas {verb} {TOPIC} -f {folder}/{name}.json"
        for name in FILES
        for verb in ("compatibility", "upload")
        if (verb, name) not in REFUSED_BY_A_VERDICT
    ]
    return [
        f"admin topics create {TOPIC}",
        f"admin schemas get {TOPIC}",
        *uploads,
        f"admin schemas get {TOPIC}",
        f"admin schemas get {TOPIC} --version 0",
        f"admin schemas get {TOPIC} --version 7",
        f"admin schemas get {TOPIC} --all-version",
        f"admin schemas metadata {TOPIC}",
        f"admin schemas delete {TOPIC}",
        f"admin schemas get {TOPIC}",
        f"admin schemas upload {TOPIC} -f {folder}/pair.json",
        f"admin schemas get {TOPIC}",
        f"admin schemas delete {TOPIC} --force",
        f"admin schemas get {TOPIC} --all-version",
        *(
            f"admin schemas extract {TOPIC}-{kind} -j {jar} -c {EXTRACTED} -t {kind} {more}".strip()
            for kind in ("avro", "json")
            for more in ("-n", "")
        ),
        f"admin schemas get {TOPIC}-avro",
        f"admin schemas get {TOPIC}-json",
        *(f"admin namespaces {words}" for words in OF_NAMESPACES),
        *(f"admin topicPolicies {words}" for words in OF_TOPICS),
        *(f"admin topics {words}" for words in ENFORCED_ON_TOPICS),
    ]


EXTRACTED = "org.apache.pulsar.common.policies.data.RetentionPolicies"
"""A class with fields, in a jar of Apache's own."""
REFUSED_BY_A_VERDICT = {("compatibility", name) for name in ("text", "string", "pair", "broken")}
"""Commands for which Apache's tool prints a server failure, and ours the verdict: see test_schema_deletion."""
OF_NAMESPACES = [
    f"get-schema-compatibility-strategy {NAMESPACE}",
    f"set-schema-compatibility-strategy {NAMESPACE} -c BACKWARD",
    f"get-schema-compatibility-strategy {NAMESPACE}",
    f"set-schema-compatibility-strategy {NAMESPACE} -c SIDEWAYS",
    f"get-schema-autoupdate-strategy {NAMESPACE}",
    f"set-schema-autoupdate-strategy {NAMESPACE} -c Forward",
    f"get-schema-autoupdate-strategy {NAMESPACE}",
    f"set-schema-autoupdate-strategy {NAMESPACE} --disabled",
    f"get-schema-autoupdate-strategy {NAMESPACE}",
    f"get-schema-validation-enforce {NAMESPACE}",
    f"set-schema-validation-enforce {NAMESPACE} --enable",
    f"get-schema-validation-enforce {NAMESPACE}",
    f"get-schema-validation-enforce {NAMESPACE} -ap",
    f"set-schema-validation-enforce {NAMESPACE} --disable",
    f"get-is-allow-auto-update-schema {NAMESPACE}",
    f"set-is-allow-auto-update-schema {NAMESPACE} --disable",
    f"get-is-allow-auto-update-schema {NAMESPACE}",
    f"set-is-allow-auto-update-schema {NAMESPACE} --enable",
    "get-schema-compatibility-strategy schemas/nobody",
]
OF_TOPICS = [
    f"get-schema-compatibility-strategy {TOPIC}",
    f"get-schema-compatibility-strategy {TOPIC} --applied",
    f"set-schema-compatibility-strategy {TOPIC} -s SIDEWAYS",
    f"set-schema-compatibility-strategy {TOPIC} FORWARD",
    f"remove-schema-compatibility-strategy {TOPIC}",
]
ENFORCED_ON_TOPICS = [
    f"set-schema-validation-enforce {TOPIC} --enable",
    f"set-schema-validation-enforce {TOPIC} --disable",
    f"get-schema-validation-enforce {TOPIC}",
]


def plain(text: str) -> str:
    """Return the text without times, ledgers and servers' addresses. A refused upload becomes its status: Apache's tool
    prints the page of its web server, and of ours the reason."""
    refused = re.search(r"schemas/tool/t/schema\].* (HTTP (409|422))", text)
    if refused is not None:
        return refused[1]
    text = re.sub(r'("timestamp"|"ledgerId") ?: \d+', r"\1: N", text)
    text = re.sub(r"(\d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT)\S*", "TIME", text)
    return re.sub(r"(127\.0\.0\.1|localhost):\d+", "HOST", text)


@pytest.mark.timeout(500)
def test_the_tool_says_the_same_of_both(sides: tuple[Side, Side], tmp_path: Path) -> None:
    for name, given in FILES.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(given.payload))
    script = commands(tmp_path)
    printed = []
    for side in sides:
        tenant = {"adminRoles": [], "allowedClusters": ["standalone"]}
        assert side.put("/admin/v2/tenants/schemas", tenant) in (204, 409)
        assert side.put(f"/admin/v2/namespaces/{NAMESPACE}") == 204
        folder = tmp_path / side.name
        folder.mkdir()
        printed.append([plain(text) for text in Shell(side.url, side.http, folder).run(script)])
    wrong = [
        f"{command}\n  apache {theirs[:600]}\n  ours   {ours[:600]}"
        for command, theirs, ours in zip(script, *printed, strict=True)
        if theirs != ours
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("words", [f"schemas get {TOPIC}-nobody"])
def test_the_tool_fails_where_it_does_with_apache(sides: tuple[Side, Side], words: str) -> None:
    results = []
    for side in sides:
        command = [sys.executable, str(PEER), "admin", "--http", side.http, *words.split()]
        done = subprocess.run(
            command, env=os.environ | LEAN_PEER, capture_output=True, text=True, timeout=120
        )
        results.append((done.returncode, plain(done.stdout)))
    assert results[0] == results[1]

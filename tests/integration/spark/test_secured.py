"""A user's own Spark, in a process of its own, reads and writes an instance with TLS, certificates and tokens, with the
settings that the guide shows. What is missing is named, and Spark shows no secret."""

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.auth.authenticators import jws
from engine.auth.authenticators.signing_keys import SecretKey
from gateway.standalone.secure import SecureFiles
from tests.support.documents.pages import pages
from tests.support.instance import ROOT
from tests.support.instances.secure import SecureInstance, secure_instance
from tests.support.spark.secured_program import ROWS

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(600)]

NAMESPACE = "public/secured-spark"
TOPIC, COPY, REFUSED = (f"persistent://{NAMESPACE}/{name}" for name in ("rows", "copy", "refused"))
ETL, READER = "etl", "reader"
GUIDE = "docs/guides/analyse-with-spark.md"
STEP_S = 60.0
"""Seconds after which a step without credentials must have failed."""


class Secured:
    """A secure instance with the roles ETL, which may produce and consume, and READER, which may consume."""

    def __init__(self, instance: SecureInstance, folder: Path) -> None:
        self.ports = instance.instance.ports
        self.folder = folder
        self.files = SecureFiles(instance.instance.data_dir)
        instance.call("PUT", f"/admin/v2/namespaces/{NAMESPACE}")
        instance.call("POST", f"/admin/v2/namespaces/{NAMESPACE}/deduplication", True)
        key = SecretKey(self.files.token_key.read_bytes())
        for role, actions in ((ETL, ["produce", "consume"]), (READER, ["consume"])):
            path = f"/admin/v2/namespaces/{NAMESPACE}/permissions/{role}"
            instance.call("POST", path, actions)
            self.token(role).write_bytes(jws.sign({"sub": role}, key, "HS256").encode())
            self.token(role).chmod(0o600)

    def token(self, role: str) -> Path:
        return self.folder / f"{role}.token"

    def settings(self) -> str:
        """Return the guide's file of settings, with the paths of this instance."""
        [page] = [page for page in pages() if page.name == GUIDE]
        [block] = [block for block in page.blocks if block.kind == "toml"]
        text = block.text.replace("/srv/magnetar/secure", str(self.files.folder))
        return text.replace("/etc/magnetar/spark.token", str(self.token(ETL)))

    def variables(self) -> dict[str, str]:
        """Return the same settings as variables."""
        return {
            f"MAGNETAR_{name.upper()}": str(value).lower() if isinstance(value, bool) else value
            for name, value in tomllib.loads(self.settings()).items()
        }

    def run(self, name: str, environment: dict[str, str], **given: Any) -> "Ran":
        """Run steps of the program, with ``environment`` as its only settings."""
        folder = self.folder / name
        folder.mkdir()
        url = f"pulsar+ssl://127.0.0.1:{self.ports['BROKER_TLS']}"
        source = {"topic": TOPIC, "metadata.url": f"zk:127.0.0.1:{self.ports['ZOOKEEPER']}"}
        sink = {
            "serviceUrl": url,
            "topic": TOPIC,
            "deliveryGuarantee": "exactly-once",
            "tls.trustCertsFile": str(self.files.authority),
            **given.pop("sink"),
        }
        follow = {"service.url": url, "commitSubscription": "spark"}
        stream = {**source, **follow, "startingOffsets": "earliest"}
        given |= {"sink": sink, "source": source, "stream": stream, "copy": COPY}
        ours = {name: text for name, text in os.environ.items() if not name.startswith("MAGNETAR_")}
        process = subprocess.run(
            [
                *(sys.executable, "-m", "tests.support.spark.secured_program"),
                json.dumps(given | {"folder": str(folder)}),
            ],
            cwd=ROOT,
            env=ours | environment,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        return Ran(process.stdout, process.stderr, folder)

    def secrets(self) -> list[str]:
        """Return the token of ETL, and a part of the key with which bookies are read."""
        key = self.files.key("magnetar-broker").read_text().splitlines()
        return [self.token(ETL).read_text(), key[1]]


class Ran:
    """The output and files of a program: ``steps`` by their names."""

    def __init__(self, output: str, log: str, folder: Path) -> None:
        self.output = output
        self.log = log
        self.steps = {line["step"]: line for line in map(json.loads, output.splitlines())}
        files = [file for file in folder.rglob("*") if file.is_file()]
        self.files = "\n".join(file.read_text(errors="replace") for file in files)

    def result(self, step: str) -> Any:
        assert "error" not in self.steps[step], self.steps[step]["error"][-3000:]
        return self.steps[step]["result"]

    def error(self, step: str) -> str:
        """Return the error of a step, which came in time."""
        assert self.steps[step]["seconds"] < STEP_S
        return str(self.steps[step]["error"])


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured-spark")
    with secure_instance(folder / "instance") as instance:
        yield Secured(instance, folder)


def test_rows_are_written_read_and_streamed_with_the_settings_of_the_guide(
    secured: Secured,
) -> None:
    config = secured.folder / "spark.toml"
    config.write_text(secured.settings())
    ran = secured.run(
        "file",
        {"MAGNETAR_CONFIG": str(config)},
        steps=["write", "read", "through_brokers", "stream", "explain", "conf"],
        sink={"authentication.file": str(secured.token(ETL))},
    )
    assert ran.steps, ran.log[-5000:]
    ran.result("write")
    assert ran.result("read") == list(range(ROWS))
    assert ran.result("through_brokers") == list(range(ROWS))
    assert ran.result("stream") == list(range(ROWS))
    shown = [ran.result("explain"), str(ran.result("conf")), ran.files, ran.log, ran.output]
    assert "pulsar" in shown[0]
    assert "physicalPlanDescription" in ran.files
    assert "WARN" in ran.log
    for secret in secured.secrets():
        assert len(secret) > 40
        assert not [text for text in shown if secret in text]


def test_variables_serve_as_well_and_a_role_without_the_right_is_refused(secured: Secured) -> None:
    ran = secured.run(
        "variables",
        secured.variables(),
        steps=["read", "write"],
        sink={"authentication.file": str(secured.token(READER)), "topic": REFUSED},
    )
    assert ran.steps, ran.log[-5000:]
    assert ran.result("read") == list(range(ROWS))
    assert f"topic {REFUSED} is not written: the role has no right to produce" in ran.error("write")


def test_without_credentials_each_step_names_what_is_missing(secured: Secured) -> None:
    ran = secured.run("nothing", {}, steps=["write", "read", "stream"], sink={})
    assert ran.steps, ran.log[-5000:]
    assert "set option authentication.file" in ran.error("write")
    assert "See metadata_tls_enabled" in ran.error("read")
    assert "See metadata_tls_enabled" in ran.error("stream")

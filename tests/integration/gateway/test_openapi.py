"""Every call of the console's OpenAPI document and of the admin REST, made by schemathesis with good and bad values.

All answers are documented, and none reports an internal error.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.admin import openapi
from tests.support.instance import ROOT, Instance
from tests.support.instances.shared import SharedInstance

EXAMPLES = int(os.environ.get("EXAMPLES", "1"))
"""Examples of each call of the admin REST; the console's calls get ten times as many. Raise it for a long search."""
NO_WORKER = (
    r"WARNING gateway\.jobs\.\w+ the supervisor did not start a worker: worker was stopped",
    r"WARNING gateway\.jobs\.\w+ jobs\..* could not be sent to Celery's broker: .*refused",
)
CONSOLE = ROOT / "frontend" / "openapi.json"
CHECKS = ("status_code_conformance", "content_type_conformance", "response_schema_conformance")


@pytest.fixture(scope="module")
def instance(shared_instance: SharedInstance) -> Iterator[Instance]:
    # The random calls may change settings of the whole cluster, so that other tests get a new instance. Without a
    # worker no call starts Spark, which uses more of the processor than all calls together.
    with shared_instance.used(NO_WORKER, spoiled=True) as shared:
        shared.control("stop", "worker")
        tenant = {"allowedClusters": ["standalone"]}
        assert shared.rest("PUT", "/admin/v2/tenants/fuzzed", tenant)[0] == 204
        assert shared.rest("PUT", "/admin/v2/namespaces/fuzzed/ns")[0] == 204
        topic = "/admin/v2/persistent/fuzzed/ns/t"
        assert shared.rest("PUT", topic)[0] == 204
        assert shared.rest("PUT", f"{topic}/subscription/s")[0] == 204
        yield shared


def complaints(instance: Instance, document: Path, *checks: str, examples: int) -> str:
    """Return the report of schemathesis, empty without a finding. It makes ``examples`` of each call by one seed."""
    names = document.with_name("names.toml")
    names.write_text('[parameters]\n"path.cluster" = "standalone"\n')
    command = [Path(sys.executable).with_name("schemathesis"), "--config-file", names, "run"]
    command += [document, "--url", instance.http, "--checks", ",".join(checks), "--seed", "1"]
    command += ["--phases", "fuzzing", "--max-examples", str(examples), "--continue-on-failure"]
    # A busy machine answers late: the default of 10 s is reported as an error of the network.
    command += ["--request-timeout", "60"]
    command += ["--generation-database", "none", "--no-color", "--warnings", "off"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, cwd=names.parent)
    assert "Test cases:" in done.stdout, done.stdout[-2000:] + done.stderr[-2000:]
    return "" if done.returncode == 0 else done.stdout[-6000:]


def test_the_console_answers_as_documented(instance: Instance, tmp_path: Path) -> None:
    document = tmp_path / "console.json"
    document.write_text(CONSOLE.read_text())
    assert complaints(instance, document, *CHECKS, examples=10 * EXAMPLES) == ""


def test_no_call_of_the_admin_rest_fails_with_an_internal_error(
    instance: Instance, tmp_path: Path
) -> None:
    document = tmp_path / "admin.json"
    document.write_text(json.dumps(openapi.document()))
    assert complaints(instance, document, "status_code_conformance", examples=EXAMPLES) == ""

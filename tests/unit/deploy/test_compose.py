"""The Compose file is one by the schema of the Compose specification (Apache-2.0), and its parts fit each other:
settings that the programs accept, names, ports, volumes, limits of what a container may do."""

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from bookie.settings import PROGRAM as BOOKIE
from engine.functions.runtime.instance_users import NEEDED, InstanceUsers
from engine.functions.worker.settings import PROGRAM as FUNCTIONS_WORKER
from engine.programs.commands.cluster_metadata import PROGRAM as COMMAND
from engine.proxy.settings import PROGRAM as PROXY
from engine.settings import PROGRAM as BROKER
from gateway.environment import PROGRAM as GATEWAY
from tests.support.import_graph import ROOT

DEPLOY = ROOT / "deploy"
SECRETS = "/run/secrets/magnetar"
OF_OTHERS = {"metadata-1", "metadata-2", "metadata-3", "postgres", "redis", "prometheus", "grafana"}
PROGRAMS = {
    **dict.fromkeys(("bookie-1", "bookie-2", "bookie-3"), BOOKIE),
    **dict.fromkeys(("broker-1", "broker-2"), BROKER),
    **dict.fromkeys(("gateway", "worker"), GATEWAY),
    **{"proxy": PROXY, "init": COMMAND, "functions-worker": FUNCTIONS_WORKER},
}


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return loaded


@pytest.fixture(scope="module")
def services(document: dict[str, Any]) -> dict[str, Any]:
    listed: dict[str, Any] = document["services"]
    return listed


def test_the_file_is_one_of_the_specification(document: dict[str, Any]) -> None:
    schema = json.loads((ROOT / "tests/golden/deploy/compose-spec.json").read_text())
    validator = jsonschema.validators.validator_for(schema)(schema)
    assert [error.message for error in validator.iter_errors(document)] == []


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_accepts_its_settings_and_knows_its_callers(
    services: dict[str, Any], name: str, tmp_path: Path
) -> None:
    for file in ("redis.password", "postgres.password"):
        (tmp_path / file).write_text("secret")
        (tmp_path / file).chmod(0o600)
    environ = {
        variable: str(text)
        .replace(SECRETS, str(tmp_path))
        .replace("${MAGNETAR_HOST:-localhost}", "localhost")
        for variable, text in services[name]["environment"].items()
    }
    settings: Any = PROGRAMS[name].load(environ, tmp_path)
    assert settings.metadata.metadata_tls_enabled
    if name.startswith("bookie"):
        assert settings.bookie.roles == ("broker",) or set(settings.bookie.roles) == {"broker"}
        assert settings.bookie.bookie_id == settings.bookie.advertised_address == name
    elif name != "init":
        assert settings.identity.general.authentication_enabled
        assert settings.identity.authorization.authorization_enabled
        assert settings.broker_client.broker_client_tls_enabled


def test_services_use_only_what_is_declared(document: dict[str, Any]) -> None:
    services = document["services"]
    used = set()
    for name, service in services.items():
        assert set(service.get("depends_on", ())) <= services.keys(), name
        assert set(service.get("networks", ())) <= document["networks"].keys(), name
        for mount in service.get("volumes", ()):
            source = mount.partition(":")[0]
            if source.startswith("./"):
                assert (DEPLOY / source).exists(), source
            else:
                used.add(source)
    assert used == document["volumes"].keys()


def test_every_host_that_is_named_is_a_service_and_in_the_certificate(
    services: dict[str, Any],
) -> None:
    certified = set(services["secrets"]["command"])
    for name, service in services.items():
        for variable, text in service.get("environment", {}).items():
            addresses = re.findall(r"(?:[/,:@]|^)([a-z]+(?:-\d)?):\d{4,5}", str(text))
            addresses += [text] if variable.endswith("ADVERTISED_ADDRESS") else []
            for host in addresses:
                assert host in services or host == "localhost", (name, variable)
                # These two serve with passwords, within a network of the host.
                if host not in ("postgres", "redis"):
                    assert host in certified, (name, variable)


def test_containers_may_do_little_and_publish_on_loopback(services: dict[str, Any]) -> None:
    for name, service in services.items():
        for port in service.get("ports", ()):
            assert port.startswith("${MAGNETAR_PUBLISH:-127.0.0.1}:"), name
        if name in OF_OTHERS:
            assert "@sha256" in service["image"] or service["image"].count(":") == 1, name
            continue
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        if name != "secrets":
            assert service["read_only"], name
            assert "user" not in service or name == "functions-worker", name


def test_user_code_has_users_of_its_own_and_no_secrets(
    services: dict[str, Any], document: dict[str, Any]
) -> None:
    worker = services["functions-worker"]
    assert {f"CAP_{name}" for name in worker["cap_add"]} == set(NEEDED.values())
    environment = worker["environment"]
    prefix = "MAGNETAR_FUNCTIONS_WORKER"
    assert not InstanceUsers.parse(environment[f"{prefix}_RUN_AS_USER"]).are_shared
    mounts = dict(mount.split(":", 1) for mount in worker["volumes"])
    assert mounts["functions"] == environment[f"{prefix}_DOWNLOAD_DIRECTORY"]
    authority = Path(environment["MAGNETAR_BROKER_CLIENT_TRUST_CERTS_FILE_PATH"])
    assert mounts["functions-secrets"] == f"{authority.parent}:ro"
    others = {name for name, service in services.items() if "functions-secrets" in str(service)}
    assert others == {"functions-worker", "secrets"}


def test_secrets_are_in_files_alone(services: dict[str, Any]) -> None:
    for name, service in services.items():
        for variable, text in service.get("environment", {}).items():
            if re.search(r"PASSWORD|TOKEN|SECRET|PARAMETERS$|KEY$", variable):
                assert re.match(r"(file://)?/run/secrets/", str(text)), (name, variable)


def test_prometheus_asks_services_at_the_ports_that_they_serve(services: dict[str, Any]) -> None:
    config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    asked = {}
    for job in config["scrape_configs"]:
        for target in job["static_configs"][0]["targets"]:
            host, _, port = target.partition(":")
            asked[host] = int(port)
            served = {str(text) for text in services[host]["environment"].values()}
            assert port in served or f"httpPort={port}" in " ".join(served), target
    parts = {
        name
        for name in services
        if re.fullmatch(r"(metadata|bookie|broker)-\d|proxy|gateway|functions-worker", name)
    }
    assert asked.keys() == parts

"""The Helm chart: its objects refer to each other, its settings are ones that the programs accept, and pods may do
little. The files of the rendered chart are tested; where there is ``helm``, they are compared with what it renders."""

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from bookie.settings import PROGRAM as BOOKIE
from engine.functions.worker.settings import PROGRAM as FUNCTIONS_WORKER
from engine.proxy.settings import PROGRAM as PROXY
from engine.settings import PROGRAM as BROKER
from gateway.environment import PROGRAM as GATEWAY
from magnetar import __version__
from tests.golden.deploy.render_chart import (
    CHART,
    FOLDER,
    KUBERNETES,
    VARIANTS,
    RenderError,
    find_helm,
    mark,
    objects_of,
    render,
    text_of,
)

PROGRAMS = {
    **{"bookie": BOOKIE, "broker": BROKER, "proxy": PROXY, "gateway": GATEWAY},
    "functions-worker": FUNCTIONS_WORKER,
}
FILES = {
    *("ca.pem", "server.pem", "server.key", "magnetar-broker.pem", "magnetar-broker.key"),
    *("token.key", "magnetar-broker.token", "magnetar-gateway.token", "magnetar-proxy.token"),
    *(
        "magnetar-functions.token",
        "internal-token",
        "session.key",
        "postgres.password",
        "redis.password",
    ),
    *("spark.conf", "spark.token"),
}
"""Files that magnetar-secrets makes."""
CAPABILITIES = ["CHOWN", "DAC_OVERRIDE", "KILL", "SETGID", "SETUID"]
Objects = list[dict[str, Any]]


def helm() -> str:
    path = find_helm()
    if path is None:
        pytest.skip("helm is not installed: go install helm.sh/helm/v3/cmd/helm@latest")
    return path


@pytest.fixture(scope="module", params=VARIANTS)
def objects(request: pytest.FixtureRequest) -> Objects:
    return objects_of(request.param)


def test_the_rendered_files_are_of_the_present_chart() -> None:
    for name, values in VARIANTS.items():
        text = (FOLDER / f"{name}.txt").read_text()
        assert text.startswith(mark()), "run python -m tests.golden.deploy.render_chart"
        if path := find_helm():
            assert text == text_of(render(path, values))


def of_kind(objects: Objects, kind: str) -> dict[str, dict[str, Any]]:
    return {item["metadata"]["name"]: item for item in objects if item["kind"] == kind}


def pods(objects: Objects) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the templates of pods with the names of their owners."""
    for kind in ("StatefulSet", "Job"):
        for name, item in of_kind(objects, kind).items():
            yield name, item["spec"]["template"]


def containers(template: dict[str, Any]) -> list[dict[str, Any]]:
    spec = template["spec"]
    return [*spec.get("initContainers", ()), *spec["containers"]]


def test_the_chart_has_the_version_of_the_package() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == __version__


def test_every_value_that_a_template_names_is_documented() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    for template in (CHART / "templates").iterdir():
        for path in re.findall(r"\.Values\.([\w.]+)", template.read_text()):
            at: Any = values
            for key in path.split("."):
                assert key in at, f"{template.name}: {path}"
                at = at[key]


def test_objects_have_names_of_their_own(objects: Objects) -> None:
    names = [(item["kind"], item["metadata"]["name"]) for item in objects]
    assert len(set(names)) == len(names)


def test_selectors_find_the_pods_of_one_set(objects: Objects) -> None:
    labels = {name: template["metadata"]["labels"] for name, template in pods(objects)}
    selectors = {
        ("StatefulSet", name): item["spec"]["selector"]["matchLabels"]
        for name, item in of_kind(objects, "StatefulSet").items()
    }
    for name, item in of_kind(objects, "Service").items():
        selectors["Service", name] = item["spec"]["selector"]
    for kind in ("PodDisruptionBudget", "PodMonitor"):
        for name, item in of_kind(objects, kind).items():
            selectors[kind, name] = item["spec"]["selector"]["matchLabels"]
    for selected, wanted in selectors.items():
        matching = [name for name, given in labels.items() if wanted.items() <= given.items()]
        assert len(matching) == 1, selected
        assert selected[1].removesuffix("-pods") == matching[0]


def test_ports_that_are_named_are_those_of_a_container(objects: Objects) -> None:
    named = {
        name: {port["name"] for item in containers(template) for port in item.get("ports", ())}
        for name, template in pods(objects)
    }
    for name, service in of_kind(objects, "Service").items():
        for port in service["spec"]["ports"]:
            assert port["targetPort"] in named[name.removesuffix("-pods")], name
    for name, monitor in of_kind(objects, "PodMonitor").items():
        assert {end["port"] for end in monitor["spec"]["podMetricsEndpoints"]} <= named[name]
    for name, template in pods(objects):
        for item in containers(template):
            for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
                for check in ("httpGet", "tcpSocket"):
                    if asked := item.get(kind, {}).get(check):
                        assert asked["port"] in named[name]


def test_references_to_other_objects_exist(objects: Objects) -> None:
    maps, services = of_kind(objects, "ConfigMap"), of_kind(objects, "Service")
    accounts = of_kind(objects, "ServiceAccount")
    for name, item in of_kind(objects, "StatefulSet").items():
        assert item["spec"]["serviceName"] in services, name
    for name, template in pods(objects):
        spec = template["spec"]
        assert spec["serviceAccountName"] in accounts
        claims = of_kind(objects, "StatefulSet").get(name, {}).get("spec", {})
        volumes = {volume["name"] for volume in spec["volumes"]}
        volumes |= {item["metadata"]["name"] for item in claims.get("volumeClaimTemplates", ())}
        for item in containers(template):
            for source in item.get("envFrom", ()):
                assert source["configMapRef"]["name"] in maps, name
            assert {mount["name"] for mount in item.get("volumeMounts", ())} <= volumes, name
        for volume in spec["volumes"]:
            if "configMap" in volume:
                assert volume["configMap"]["name"] in maps, name
            for key in volume.get("secret", {}).get("items", ()):
                assert key["key"] in FILES, name


def test_containers_may_do_little(objects: Objects) -> None:
    for name, template in pods(objects):
        spec = template["spec"]
        assert spec["automountServiceAccountToken"] is False, name
        assert spec["securityContext"]["runAsNonRoot"] is True, name
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, name
        for item in containers(template):
            security = dict(item["securityContext"])
            if item["name"] == "functions-worker" and security.pop("runAsUser", None) == 0:
                # Root with the least that runs each instance as a user of its own.
                assert (security.pop("runAsGroup"), security.pop("runAsNonRoot")) == (0, False)
                assert security["capabilities"].pop("add") == CAPABILITIES
            assert security == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }, (name, item["name"])
            assert item["resources"]["requests"].keys() == {"memory", "cpu"}, (name, item["name"])


def test_secrets_are_mounted_files(objects: Objects) -> None:
    for name, item in of_kind(objects, "ConfigMap").items():
        for variable, text in item["data"].items():
            if re.search(r"_PASSWORD$|_TOKEN$|SECRET|_PARAMETERS$", variable):
                assert text.startswith("file:///run/secrets/"), (name, variable)


@pytest.mark.parametrize("component", PROGRAMS)
def test_a_program_accepts_its_settings(
    objects: Objects, component: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    for file in ("redis.password", "postgres.password"):
        (tmp_path / file).write_text("secret")
        (tmp_path / file).chmod(0o600)
    name = f"rel-magnetar-{component}"
    data = dict(of_kind(objects, "ConfigMap")[name]["data"])
    (container,) = (
        item
        for item in dict(pods(objects))[name]["spec"]["containers"]
        if item["name"] == component
    )
    data |= {item["name"]: item["value"] for item in container["env"] if "value" in item}
    environ = {
        name: text.replace("/run/secrets/magnetar", str(tmp_path)).replace("$(POD_NAME)", "pod-0")
        for name, text in data.items()
    }
    settings: Any = PROGRAMS[component].load(environ, tmp_path)
    secured = "open" not in request.node.name
    assert settings.reach.insecure_anywhere is not secured
    if component == "bookie":
        assert bool(settings.bookie.roles) is secured
    else:
        assert settings.identity.general.authentication_enabled is secured


def test_users_code_can_read_no_secret(objects: Objects, request: pytest.FixtureRequest) -> None:
    name = "rel-magnetar-functions-worker"
    data = of_kind(objects, "ConfigMap")[name]["data"]
    template = dict(pods(objects))[name]
    (container,) = template["spec"]["containers"]
    volumes = {volume["name"]: volume for volume in template["spec"]["volumes"]}
    if "open" in request.node.name:  # the variant with trusted code: the worker's own user
        assert "MAGNETAR_FUNCTIONS_WORKER_RUN_AS_USER" not in data
        assert "add" not in container["securityContext"]["capabilities"]
        return
    assert data["MAGNETAR_FUNCTIONS_WORKER_RUN_AS_USER"] == "200000-200999"
    # Files of the mode 0440 are for root and the group of the pod, which an instance leaves.
    assert volumes["secrets"]["secret"]["defaultMode"] == 0o440
    trusted = Path(data["MAGNETAR_BROKER_CLIENT_TRUST_CERTS_FILE_PATH"])
    (mount,) = (m for m in container["volumeMounts"] if m["mountPath"] == str(trusted.parent))
    shown = volumes[mount["name"]]["secret"]
    assert shown["items"] == [{"key": "ca.pem", "path": trusted.name}]
    assert shown["defaultMode"] == 0o444


def test_a_function_s_token_is_signed_by_the_private_key_where_there_is_no_secret_key() -> None:
    values = {"auth.authentication.jwt.usingSecretKey": "false"}
    objects = render(helm(), values)
    data = of_kind(objects, "ConfigMap")["rel-magnetar-functions-worker"]["data"]
    assert data["MAGNETAR_TOKEN_SIGNING_KEY"] == "file:///run/secrets/magnetar/token-private.key"
    spec = dict(pods(objects))["rel-magnetar-functions-worker"]["spec"]
    (secret,) = (v["secret"] for v in spec["volumes"] if v["name"] == "secrets")
    keys = {item["key"] for item in secret["items"]}
    assert {"token-public.key", "token-private.key", "magnetar-functions.token"} <= keys
    assert "token.key" not in keys


def test_settings_by_pulsar_s_names_become_variables() -> None:
    objects = render(
        helm(),
        {
            "broker.configData.brokerDeleteInactiveTopicsEnabled": "false",
            "broker.configData.PULSAR_PREFIX_maxMessageSize": "1048576",
            "broker.configData.PULSAR_MEM": "-Xmx1g",
            "bookkeeper.configData.diskUsageThreshold": "0.9",
            "functions.configData.failureCheckFreqMs": "2000",
        },
    )
    maps = of_kind(objects, "ConfigMap")
    broker, bookie = maps["rel-magnetar-broker"]["data"], maps["rel-magnetar-bookie"]["data"]
    assert broker["MAGNETAR_BROKER_DELETE_INACTIVE_TOPICS_ENABLED"] == "false"
    assert broker["MAGNETAR_MAX_MESSAGE_SIZE"] == "1048576"
    assert bookie["MAGNETAR_BOOKIE_DISK_USAGE_THRESHOLD"] == "0.9"
    worker = maps["rel-magnetar-functions-worker"]["data"]
    assert worker["MAGNETAR_FUNCTIONS_WORKER_FAILURE_CHECK_FREQ_MS"] == "2000"
    assert not [name for name in broker if name.endswith("MEM")]
    assert broker["MAGNETAR_MANAGED_LEDGER_DEFAULT_ACK_QUORUM"] == "2"


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"gateway.replicaCount": "2"}, "needs gateway.database.url and gateway.redis.url"),
        ({"components.worker": "true"}, "components.worker needs gateway.redis.url"),
        ({"components.zookeeper": "false"}, "set pulsar_metadata.metadataUrl"),
    ],
)
def test_values_that_cannot_work_are_refused(values: dict[str, str], reason: str) -> None:
    with pytest.raises(RenderError, match=reason):
        render(helm(), values)


def test_objects_are_ones_of_kubernetes(objects: Objects) -> None:
    if importlib.util.find_spec("kubernetes_validate") is None:
        pytest.skip("the schemas of Kubernetes are not installed: pip install kubernetes-validate")
    import kubernetes_validate

    for item in objects:
        if item["kind"] != "PodMonitor":  # of the Prometheus operator
            kubernetes_validate.validate(item, KUBERNETES, strict=True)

"""A cluster with TLS and tokens whose functions run on our worker and on Apache's: each calls the other with its own
token, and a function has the token of its creator or the role of one."""

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pulsar
import pytest

from gateway.standalone.secure import SecureFiles
from tests.bench.contenders import apache_missing
from tests.crash.load import quiet_client
from tests.oracle.functions.apache_functions_worker import (
    ApacheFunctionsWorker,
    apache_functions_worker,
    worker_port,
)
from tests.oracle.functions.test_shared_with_apache import (
    CODE,
    MESSAGES,
    OUR_ID,
    WAIT_S,
    apaches_id,
    path_of,
    rest,
)
from tests.support.access.callers import token_by
from tests.support.functions.forms import FORM_TYPE, file_part, form, json_part
from tests.support.instance import Instance, running_instance
from tests.support.waiting import until_blocking

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

NAMESPACE = "public/default"
TOPIC = f"persistent://{NAMESPACE}/"
DEPLOYER = "deployer"
TOKEN_PLUGIN = "org.apache.pulsar.client.impl.auth.AuthenticationToken"


class SecureCluster(NamedTuple):
    """Our instance with ``--secure``, Apache's worker beside it, and which of both leads."""

    instance: Instance
    files: SecureFiles
    apache: ApacheFunctionsWorker
    leader: str

    @property
    def ours(self) -> str:
        return f"https://127.0.0.1:{self.instance.ports['HTTPS']}"

    def rest(
        self, http: str, method: str, path: str, body: bytes = b"", *, role: str = "superuser"
    ) -> tuple[int, Any]:
        """Return status and body of a call, behind a redirect; without a role it has no token."""
        kind, token = FORM_TYPE if body else "", token_of(self.files, role) if role else ""
        trusted = ssl.create_default_context(cafile=str(self.files.authority))
        return rest(http, method, path, body, kind, token=token, trusted=trusted)

    def done(self, http: str, method: str, path: str, body: bytes = b"", **given: str) -> Any:
        """Return the body of a call that succeeded."""
        status, answer = self.rest(http, method, path, body, **given)
        assert status in (200, 204), (method, http + path, status, answer)
        return answer

    def deploy(self, http: str, name: str, parallelism: int) -> None:
        """Create a function as a role that is no superuser."""
        config = {
            **{"className": "ex.Exclaim", "runtime": "PYTHON", "py": "ex.py", "autoAck": True},
            **{"inputs": [TOPIC + f"{name}-in"], "output": TOPIC + f"{name}-out"},
            **{"parallelism": parallelism, "subscriptionPosition": "Earliest"},
        }
        body = form(json_part("functionConfig", config), file_part(CODE))
        self.done(http, "POST", path_of(name), body, role=DEPLOYER)

    def workers_of(self, http: str, name: str) -> list[str]:
        """Return the workers of the running instances, sorted."""
        status, answer = self.rest(http, "GET", path_of(name, "/status"))
        if status != 200:
            return [f"{status} {answer}"]
        rows = [row["status"] for row in answer["instances"]]
        return sorted(row["workerId"] if row["running"] else str(row)[-900:] for row in rows)

    def wait_for_workers(self, http: str, name: str, *expected: str) -> None:
        until_blocking(
            lambda: self.workers_of(http, name) == sorted(expected),
            lambda: f"{name} runs on {expected}: {self.workers_of(http, name)}",
            bound_s=WAIT_S,
        )

    def results(self, name: str) -> list[str]:
        """Publish messages to a function and return its sorted results."""
        client = quiet_client(
            f"pulsar+ssl://127.0.0.1:{self.instance.ports['BROKER_TLS']}",
            authentication=pulsar.AuthenticationToken(token_of(self.files, DEPLOYER)),
            tls_trust_certs_file_path=str(self.files.authority),
        )
        try:
            consumer = client.subscribe(
                f"{name}-out", "test", initial_position=pulsar.InitialPosition.Earliest
            )
            producer = client.create_producer(f"{name}-in", batching_enabled=False)
            for number in range(MESSAGES):
                producer.send(f"m{number:03}".encode())
            received: set[str] = set()
            while len(received) < MESSAGES:
                received.add(consumer.receive(60_000).data().decode())
        finally:
            client.close()
        return sorted(received)


def token_of(files: SecureFiles, role: str) -> str:
    return token_by(files.token_key.read_bytes(), role)


def java_options(files: SecureFiles, folder: Path) -> str:
    """Return the options by which a JVM connects to the instance's metadata server, in TLS with a certificate."""
    both = folder / "zookeeper.pem"
    certificate, key = files.certificate("superuser"), files.key("superuser")
    both.write_text(key.read_text() + certificate.read_text())
    options = {
        "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
        "zookeeper.client.secure": "true",
        "zookeeper.ssl.keyStore.location": str(both),
        "zookeeper.ssl.keyStore.type": "PEM",
        "zookeeper.ssl.trustStore.location": str(files.authority),
        "zookeeper.ssl.trustStore.type": "PEM",
    }
    return " ".join(f"-D{name}={value}" for name, value in options.items())


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    if (reason := apache_missing()) is not None:
        pytest.skip(f"Apache Pulsar is not at hand: {reason}")
    folder = tmp_path_factory.mktemp("ours")
    with running_instance(folder, secure=True, MAGNETAR_FUNCTIONS_WORKER_ENABLED="true") as made:
        yield made


@pytest.fixture(scope="module", params=["ours", "apache"])
def cluster(
    request: pytest.FixtureRequest, instance: Instance, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SecureCluster]:
    files = SecureFiles(instance.data_dir)
    folder = tmp_path_factory.mktemp("apache")
    port, port_tls = worker_port(), worker_port()
    our_label = f"{OUR_ID}:127.0.0.1:{instance.ports['HTTPS']}"
    web_url = f"https://127.0.0.1:{instance.ports['HTTPS']}"
    with apache_functions_worker(
        folder / "worker",
        apaches_id(our_label, port_tls, request.param),
        port,
        broker_url=f"pulsar+ssl://127.0.0.1:{instance.ports['BROKER_TLS']}",
        web_url=web_url,
        zk=f"127.0.0.1:{instance.ports['ZOOKEEPER']}",
        java=f"-Xms32m -Xmx256m -XX:MaxDirectMemorySize=128m {java_options(files, folder)}",
        ready=f"https://127.0.0.1:{port_tls}/admin/v3/functions/public/default",
        workerPortTls=str(port_tls),
        functionWebServiceUrl=web_url,
        useTls="true",
        brokerClientTrustCertsFilePath=str(files.authority),
        tlsTrustCertsFilePath=str(files.authority),
        tlsEnableHostnameVerification="true",
        tlsEnabled="true",
        tlsCertificateFilePath=str(files.certificate("server")),
        tlsKeyFilePath=str(files.key("server")),
        brokerClientAuthenticationEnabled="true",
        brokerClientAuthenticationPlugin=TOKEN_PLUGIN,
        brokerClientAuthenticationParameters=files.token("magnetar-functions").as_uri(),
        functionAuthProviderClassName=(
            "org.apache.pulsar.functions.auth.ClearTextFunctionTokenAuthProvider"
        ),
        authenticationEnabled="true",
        authenticationProviders=(
            "[org.apache.pulsar.broker.authentication.AuthenticationProviderToken]"
        ),
        authorizationEnabled="true",
        superUserRoles="[superuser, magnetar-functions, magnetar-gateway, magnetar-broker]",
        proxyRoles="[magnetar-gateway]",
        properties=f"{{tokenSecretKey: '{files.token_key.as_uri()}'}}",
    ) as worker:
        made = SecureCluster(
            instance,
            files,
            worker._replace(http=f"https://127.0.0.1:{port_tls}"),
            request.param,
        )
        leading = OUR_ID if request.param == "ours" else worker.id

        def led() -> bool:
            path = "/admin/v2/worker/cluster/leader"
            answers = [made.rest(http, "GET", path) for http in (made.ours, made.apache.http)]
            ids = [body["workerId"] for status, body in answers if status == 200]
            return ids == [leading] * 2 and made.rest(made.ours, "GET", f"{path}/ready") == (
                200,
                True,
            )

        until_blocking(led, f"{leading} leads", bound_s=WAIT_S)
        grant = f"/admin/v2/namespaces/{NAMESPACE}/permissions/{DEPLOYER}"
        actions = json.dumps(["functions", "packages", "produce", "consume"]).encode()
        request_of = urllib.request.Request(
            made.ours + grant,
            actions,
            {
                "Content-Type": "application/json",
                "Authorization": f"Bearer {token_of(files, 'superuser')}",
            },
            method="POST",
        )
        trusted = ssl.create_default_context(cafile=str(files.authority))
        with urllib.request.urlopen(request_of, timeout=30, context=trusted) as reply:
            assert reply.status == 204
        yield made


def test_a_function_of_apaches_interface_runs_on_both_with_its_creators_token(
    cluster: SecureCluster,
) -> None:
    name = f"s-{cluster.leader}-apache"
    cluster.deploy(cluster.apache.http, name, 2)
    for http in (cluster.ours, cluster.apache.http):
        cluster.wait_for_workers(http, name, OUR_ID, cluster.apache.id)
    assert cluster.results(name) == [f"m{number:03}!" for number in range(MESSAGES)]
    cluster.done(cluster.ours, "POST", path_of(name, "/restart"), role=DEPLOYER)
    cluster.wait_for_workers(cluster.ours, name, OUR_ID, cluster.apache.id)
    cluster.done(cluster.ours, "POST", path_of(name, "/stop"), role=DEPLOYER)
    cluster.done(cluster.apache.http, "POST", path_of(name, "/start"), role=DEPLOYER)
    cluster.wait_for_workers(cluster.ours, name, OUR_ID, cluster.apache.id)
    cluster.done(cluster.ours, "DELETE", path_of(name), role=DEPLOYER)


def test_a_function_of_our_interface_runs_with_its_role_on_our_worker(
    cluster: SecureCluster,
) -> None:
    name = f"s-{cluster.leader}-ours"
    if cluster.leader == "apache":
        pytest.skip("Apache's leader gives any instance to any worker")
    cluster.deploy(cluster.ours, name, 2)
    for http in (cluster.ours, cluster.apache.http):
        cluster.wait_for_workers(http, name, OUR_ID, OUR_ID)
    assert cluster.results(name) == [f"m{number:03}!" for number in range(MESSAGES)]
    cluster.done(cluster.apache.http, "DELETE", path_of(name), role=DEPLOYER)


def test_both_refuse_who_has_no_right(cluster: SecureCluster) -> None:
    for role, expected in (("nobody", 401), ("", 401)):
        for http in (cluster.ours, cluster.apache.http):
            path = f"/admin/v3/functions/{NAMESPACE}"
            assert cluster.rest(http, "GET", path, role=role)[0] == expected, (http, role)

"""Two tenants of a running secure instance, whose every name and text contains a canary text of its tenant, and six
people who see both, one or none of them."""

import contextlib
import json
import sqlite3
from typing import NamedTuple

import pulsar

from gateway.services.clock import now_ms
from gateway.standalone.secure import SecureFiles
from tests.support.access.two_tenants import CLUSTER, TENANTS, canary, changes, topic_of
from tests.support.instances.secure import SecureInstance

QUIET = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)


class Visitor(NamedTuple):
    """A person, with the tenants that it sees."""

    name: str
    role: str
    level: str
    tenants: tuple[int, ...]

    @property
    def superuser(self) -> bool:
        """True for the role of superusers, at any level."""
        return self.role == "superuser"


OVERSEER = Visitor("overseer", "superuser", "full", TENANTS)
ADMINS = tuple(
    Visitor(canary(tenant, "person"), canary(tenant, "admin"), "full", (tenant,))
    for tenant in TENANTS
)
READER = Visitor("reader", canary(1, "admin"), "read", (1,))
AUDITOR = Visitor("auditor", "superuser", "read", TENANTS)
STRANGER = Visitor("stranger", "stranger", "full", ())
PEOPLE = (OVERSEER, AUDITOR, *ADMINS, READER, STRANGER)


def run_of(tenant: int) -> str:
    """Return the id of the run of an analysis of a tenant's topic."""
    return f"run-{tenant}"


def fill(secure: SecureInstance) -> None:
    """Make both tenants with all that the console shows of them, and the people."""
    for tenant in TENANTS:
        for method, path, body in changes(tenant):
            secure.call(method, path, body)
        token = {"name": canary(tenant, "token"), "role": canary(tenant, "admin"), "level": "full"}
        secure.call("POST", "/api/v1/tokens", {**token, "expires_in_s": 86_400})
    for visitor in PEOPLE:
        secure.add_person(visitor.name, f"{visitor.role}:{visitor.level}")
    rules = [
        {"namespace": f"{canary(tenant, 'tenant')}/*", "role": "", "level": "", "shown": True}
        for tenant in TENANTS
    ]
    secure.call("PUT", "/api/v1/payload-rules", {"rules": rules, "expected": []})
    publish(secure, {tenant: topic_of(tenant) for tenant in TENANTS}, 1)
    _record_runs(secure)


def publish(secure: SecureInstance, topics: dict[int, str], count: int) -> None:
    """Publish messages to a topic of each tenant."""
    files = SecureFiles(secure.instance.data_dir)
    client = pulsar.Client(
        f"pulsar+ssl://127.0.0.1:{secure.instance.ports['BROKER_TLS']}",
        authentication=pulsar.AuthenticationToken(files.token("superuser").read_text()),
        tls_trust_certs_file_path=str(files.authority),
        logger=QUIET,
    )
    for tenant, topic in topics.items():
        producer = client.create_producer(topic, producer_name=canary(tenant, "producer"))
        for _ in range(count):
            producer.send(
                canary(tenant, "payload").encode(),
                {"k": canary(tenant, "header")},
                partition_key=canary(tenant, "key"),
            )
    client.close()


def _record_runs(secure: SecureInstance) -> None:
    """Record a failed run of each tenant in the console's database, without the seconds that Spark takes for one."""
    path = secure.instance.data_dir / "console.sqlite3"
    with contextlib.closing(sqlite3.connect(path, timeout=30)) as database, database:
        for tenant in TENANTS:
            values = {
                **{
                    "id": run_of(tenant),
                    "analysis": "topic-profile",
                    "title": canary(tenant, "run"),
                },
                **{
                    "cluster": CLUSTER,
                    "kind": "topic",
                    "target": topic_of(tenant),
                    "state": "failed",
                },
                "parameters": json.dumps({"p": canary(tenant, "parameter")}),
                **{"stage": "", "done": 0, "total": 0, "attempt": 1, "cancel_requested": False},
                **{"lease_until_ms": 0, "created_at": now_ms(), "finished_at": now_ms()},
                **{"created_by": canary(tenant, "person"), "error": canary(tenant, "error")},
                **{"also_reads": "[]", "rerun_of": "", "schedule": "", "pinned": False},
                **{"log": "", "output_url": "", "downloads": "[]"},
            }
            marks = ", ".join(f":{name}" for name in values)
            database.execute(
                f"INSERT INTO jobs_jobrun ({', '.join(values)}) VALUES ({marks})", values
            )

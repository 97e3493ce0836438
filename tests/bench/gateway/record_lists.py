"""CPU of the console's lists of records: the audit log, alerts that ended, and people, in each order.

``python -m tests.bench.gateway.record_lists [--entries 100000] [--people 10000] [--rounds 20]`` fills a database and
measures GETs of the first 100 rows through the gateway's application in this process, without a socket. With
``--postgresql`` the database is a PostgreSQL server, whose CPU is stated as well.
"""

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.bench.contenders import cpu_s
from tests.support.stores.postgresql import running_postgresql

ALERTS = "/api/v1/clusters/standalone/alerts/firings?state=ended"
TARGETS = {
    "audit, newest": "/api/v1/audit?",
    "audit by who": "/api/v1/audit?sort=actor",
    "audit by what, falling": "/api/v1/audit?sort=-operation",
    "audit by outcome": "/api/v1/audit?sort=status",
    "audit by outcome, falling": "/api/v1/audit?sort=-status",
    "audit of one person by outcome": "/api/v1/audit?actor=actor7&sort=-status",
    "audit with a word by who": "/api/v1/audit?q=topic77&sort=actor",
    "audit, row 4,900": "/api/v1/audit?sort=actor&offset=4900",
    "alerts by end": f"{ALERTS}&sort=-ended_at",
    "alerts by rule": f"{ALERTS}&sort=rule",
    "alerts by rule, row 50,000": f"{ALERTS}&sort=rule&offset=50000",
    "alerts with a word": f"{ALERTS}&q=topic77",
    "people by name": "/api/v1/people?",
    "people by full name": "/api/v1/people?sort=display_name",
    "people by last sign-in": "/api/v1/people?sort=-last_sign_in_at",
    "people by sessions": "/api/v1/people?sort=-sessions",
    "people with a word": "/api/v1/people?q=son77",
}


@contextmanager
def database(is_postgresql: bool) -> Iterator[Callable[[], float]]:
    """Set up Django on a new database. Yield a function that returns its server's CPU in seconds."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(
            {"DJANGO_SETTINGS_MODULE": "gateway.settings", "MAGNETAR_DATA_DIR": folder}
        )
        if not is_postgresql:
            yield lambda: 0.0
            return
        with running_postgresql() as server:
            os.environ["MAGNETAR_DATABASE_URL"] = server.url
            assert server._process is not None
            pid = server._process.pid
            yield lambda: cpu_s(_children(pid))


def _children(pid: int) -> list[int]:
    return [*map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]


def fill(entries: int, people: int) -> None:
    """Write the records."""
    from django.contrib.auth import get_user_model
    from django.db import connection
    from django.utils import timezone

    from admin_ui.models import AuditEntry
    from gateway.alerts.models import AlertFiring, FiringState
    from gateway.people.models import Person

    made = (
        AuditEntry(
            at_ms=number,
            actor=f"actor{number % 97}",
            address="127.0.0.1",
            method="POST",
            operation=f"operation{number % 211}",
            target=f"/api/v1/clusters/standalone/topics/persistent/t{number % 50}/n/topic{number}/x",
            tenant=f"t{number % 50}",
            namespace=f"t{number % 50}/n",
            topic=f"persistent://t{number % 50}/n/topic{number}",
            role=f"role{number % 31}",
            status=None if number % 1_000 == 0 else (200, 204, 404, 409)[number % 4],
            request_id=f"{number}",
        )
        for number in range(entries)
    )
    AuditEntry.objects.bulk_create(made, batch_size=500)
    AlertFiring.objects.bulk_create(
        (
            AlertFiring(
                cluster="standalone",
                rule_id=number % 40,
                rule_name=f"rule {number % 40}",
                severity="warning",
                object=f"topic{number}",
                object_hash=f"{number}",
                title=f"Backlog of topic{number} is above its limit",
                state=FiringState.ENDED,
                since=number,
                began_at=number + 7,
                ended_at=number * 7_919 % entries,
            )
            for number in range(entries)
        ),
        batch_size=500,
    )
    users = get_user_model()
    now = timezone.now()
    users.objects.bulk_create(
        (
            users(username=f"person{number}", last_login=now if number % 3 else None)
            for number in range(people)
        ),
        batch_size=500,
    )
    Person.objects.bulk_create(
        (
            Person(user_id=key, display_name=f"Anna {key % 997} Person")
            for key in users.objects.values_list("pk", flat=True)
        ),
        batch_size=500,
    )
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SET statement_timeout = 0")  # of this connection, which ends here
        cursor.execute("ANALYZE")
    connection.close()


async def measure(read: Any, server_s: Callable[[], float], rounds: int) -> None:
    for name, target in TARGETS.items():
        own, waited = [], []
        before = 0.0
        for number in range(-3, rounds):
            if number == 0:
                before = server_s()
            begun, began = time.process_time(), time.perf_counter()
            answer = await read(f"{target}&limit=100", {})
            if answer.status != 200:
                raise SystemExit(f"{target}: {answer.status} {answer.body!r}")
            if number >= 0:
                own.append(1000 * (time.process_time() - begun))
                waited.append(1000 * (time.perf_counter() - began))
        server_ms = 1000 * (server_s() - before) / rounds
        print(
            f"| {name} | {statistics.median(own):.1f} | {server_ms:.1f} |"
            f" {statistics.median(waited):.0f} | {answer.json['total']:,} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--people", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--postgresql", action="store_true")
    given = parser.parse_args()
    with database(given.postgresql) as server_s:
        import django

        django.setup()
        from django.core.management import call_command

        from tests.support.admin.clusters import cluster_of
        from tests.support.admin.gateway_client import Gateway, memory_link

        call_command("migrate", verbosity=0)
        fill(given.entries, given.people)
        print(f"load {os.getloadavg()[0]:.0f}")
        print("| list | gateway, ms of CPU | server, ms of CPU | wall ms | total |")
        print("|---|---|---|---|---|")
        with memory_link() as link:
            gateway = Gateway(cluster_of(link))
            asyncio.run(measure(gateway.read, server_s, given.rounds))
            gateway.close()


if __name__ == "__main__":
    main()

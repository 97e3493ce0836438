"""Other clusters that a cluster knows, by their records: the option ``--cluster``."""

from dataclasses import replace
from urllib.parse import quote

from magnetar.command.connecting.admin import administered
from magnetar.command.connecting.client import run
from magnetar.command.connecting.options import ENCRYPTED, ClusterAddress
from magnetar.command.exits import CommandFailed, Exit


def in_cluster(connection: ClusterAddress, name: str) -> ClusterAddress:
    """Return the addresses of a cluster, which its record has; credentials and TLS files are those of ``connection``.

    Raises CommandFailed, also for a caller who may not read the record.
    """

    async def record() -> dict[str, object]:
        async with administered(connection) as admin:
            answer: dict[str, object] = await admin.call(
                "GET", f"/admin/v2/clusters/{quote(name, safe='')}"
            )
            return answer

    tls = "Tls" if connection.url.startswith(ENCRYPTED) else ""
    keys = (f"brokerServiceUrl{tls}", f"serviceUrl{tls}")
    stored = run(record(), connection)
    url, admin_url = (str(stored.get(key) or "") for key in keys)
    if not (url and admin_url):
        raise CommandFailed(
            f"the record of cluster {name} has no {keys[0] if not url else keys[1]}",
            Exit.MISSING,
            "Give --url and --admin-url of that cluster",
        )
    return replace(connection, url=url, admin_url=admin_url.rstrip("/"))

"""Pages of a bookie's status port beside those of Apache's bookie: statuses, texts, and the fields of JSON."""

import asyncio
import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.oracle.servers import ApacheBookie, OurBookie, make_root
from tests.support.ports import free_ports

pytestmark = [pytest.mark.slow]

ALIKE: list[tuple[str, str, Any]] = [
    ("GET", "bookie/list_bookie_info", None),
    ("GET", "bookie/gc_details", None),
    ("GET", "bookie/gc", None),
    ("PUT", "bookie/gc", {}),
    ("GET", "bookie/gc/suspend_compaction", None),
    ("PUT", "bookie/gc/suspend_compaction", None),
    ("PUT", "bookie/gc/suspend_compaction", {}),
    ("PUT", "bookie/gc/suspend_compaction", {"suspendMajor": True, "suspendMinor": True}),
    ("GET", "bookie/gc/suspend_compaction", None),
    ("PUT", "bookie/gc/resume_compaction", None),
    ("PUT", "bookie/gc/resume_compaction", {}),
    ("PUT", "bookie/gc/resume_compaction", {"resumeMajor": True}),
    ("GET", "bookie/gc/suspend_compaction", None),
    ("PUT", "bookie/gc/resume_compaction", {"resumeMinor": True, "resumeMajor": True}),
    ("PUT", "bookie/expand_storage", None),
    ("GET", "bookie/entry_location_compact", None),
    ("PUT", "bookie/entry_location_compact", None),
    ("PUT", "bookie/entry_location_compact", {}),
    ("PUT", "bookie/entry_location_compact", {"entryLocationRocksDBCompact": True}),
    (
        "PUT",
        "bookie/entry_location_compact",
        {"entryLocationRocksDBCompact": True, "entryLocations": "/nowhere"},
    ),
    ("GET", "bookie/state", None),
    ("GET", "bookie/state/readonly", None),
    ("GET", "bookie/is_ready", None),
    ("GET", "bookie/sanity", None),
    ("GET", "bookie/list_bookies?type=rw", None),
    ("GET", "bookie/list_bookies?type=ro", None),
    ("GET", "autorecovery/status", None),
    ("PUT", "autorecovery/status?enabled=true", None),
    ("GET", "autorecovery/list_under_replicated_ledger", None),
]


class Pages:
    """The status port of a bookie."""

    def __init__(self, bookie: str, port: int) -> None:
        self._bookie = bookie
        self._root = f"http://127.0.0.1:{port}/api/v1/"

    def ask(self, method: str, page: str, body: Any = None) -> tuple[int, Any]:
        """Return status and body, without what differs between any two bookies: ids, paths, times and sizes."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._root + page, data, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as reply:
                status, raw = reply.status, reply.read()
        except urllib.error.HTTPError as error:
            with error:
                status, raw = error.code, error.read()
        return status, self._plain(raw.decode())

    def _plain(self, raw: str) -> Any:
        raw = raw.replace(self._bookie, "BOOKIE")
        raw = re.sub(r"(?<![\w:])/(?!nowhere)[\w/.-]+/(locations|index)\b", "INDEX", raw)
        raw = re.sub(r"\d+\(\d+(\.\d+)?[KMGT]B\)", "SIZE", raw)
        try:
            page = json.loads(re.sub(r"\b\d{10,}\b", "0", raw))
        except ValueError:
            return raw.strip()
        return list(page.items()) if isinstance(page, dict) else page


@pytest.fixture(scope="module")
def sides(
    zookeeper: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Pages, Pages]]:
    """(Apache's, ours), each alone in its cluster."""
    work: Path = tmp_path_factory.mktemp("status-pages")
    roots = [f"{zookeeper}/pages-theirs", f"{zookeeper}/pages-ours"]
    asyncio.run(make_root(roots[0]))
    (port,) = free_ports(1)
    theirs = ApacheBookie(work, "theirs", roots[0], port, httpServerEnabled="true")
    ours = OurBookie(
        work,
        "ours",
        roots[1],
        env={
            "MAGNETAR_AUTO_RECOVERY_DAEMON_ENABLED": "true",
            "MAGNETAR_HTTP_SERVER_CHANGES_ENABLED": "true",
        },
    )
    try:
        theirs.start()
        ours.start()
        yield Pages(theirs.id, port + 1), Pages(ours.id, ours.status_port)
        ours.stop()
    finally:
        theirs.kill()
        ours.kill()


def test_pages_answer_as_apaches(sides: tuple[Pages, Pages]) -> None:
    theirs, ours = sides
    differing = []
    for method, page, body in ALIKE:
        wanted, got = theirs.ask(method, page, body), ours.ask(method, page, body)
        if wanted != got:
            differing.append(f"{method} {page} {body}: {wanted} {got}")
    assert not differing, "\n".join(differing)


def test_settings_are_texts_by_names_and_ours_are_not_set_while_it_serves(
    sides: tuple[Pages, Pages],
) -> None:
    theirs, ours = (side.ask("GET", "config/server_config") for side in sides)
    assert (theirs[0], ours[0]) == (200, 200)
    assert all(isinstance(value, str) for _, value in [*theirs[1], *ours[1]])
    shared = dict(theirs[1]).keys() & dict(ours[1]).keys()
    assert {"bookiePort", "gcWaitTime", "autoRecoveryDaemonEnabled"} & shared, sorted(shared)
    assert sides[1].ask("PUT", "config/server_config", {"a": "b"})[0] == 403

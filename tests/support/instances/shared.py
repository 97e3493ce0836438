"""Instances that many files of tests use, one file after the other: a start costs as much as dozens of tests.

``shared_instance`` is for files whose tests harm no part of it, ``killed_instance`` for those that kill and stop parts,
``secured_instance`` (``tests/interop/identity``) for clients with credentials. All for files that need no settings of
their own and have topics, namespaces or tenants that no other file has. What one file breaks fails there: the parts
are examined after each, and the next file gets a new instance when one is not well.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from xdist.scheduler import LoadFileScheduling

from tests.support.instance import Instance, complaints
from tests.support.waiting import until_blocking

FILES = {
    "killed_instance": (
        "tests/crash/test_kill.py",
        "tests/integration/command/test_doctor_under_fire.py",
        "tests/integration/gateway/test_killed_exports.py",
        "tests/integration/test_cursor_changes.py",
        "tests/integration/test_killed_proxy.py",
        "tests/integration/websocket/test_faults.py",
        "tests/interop/schemas/test_programs.py",
        "tests/interop/test_bad_schemas.py",
    ),
    "shared_instance": (
        "tests/integration/docs/test_languages.py",
        "tests/integration/docs/test_metrics.py",
        "tests/integration/functions/test_change_capture.py",
        "tests/integration/functions/test_failing_connectors.py",
        "tests/integration/functions/test_instances.py",
        "tests/integration/functions/test_killed_connectors.py",
        "tests/integration/functions/test_killed_instances.py",
        "tests/integration/functions/test_runtimes.py",
        "tests/integration/functions/test_shapes.py",
        "tests/integration/spark/test_sink.py",
        "tests/integration/gateway/test_at_once.py",
        "tests/integration/gateway/test_audit_trail.py",
        "tests/integration/gateway/test_latest_values.py",
        "tests/integration/gateway/test_messages_shown.py",
        "tests/integration/command/test_cluster_commands.py",
        "tests/integration/test_gateway_rest.py",
        "tests/integration/test_healthy_attention.py",
        "tests/integration/deploy/test_monitoring.py",
        "tests/integration/websocket/test_servers.py",
        "tests/integration/websocket/test_sockets.py",
        "tests/integration/websocket/test_keys.py",
        "tests/oracle/transactions/test_recorded_answers.py",
        "tests/interop/hosts/test_service_urls.py",
        "tests/interop/test_java_tools.py",
        "tests/integration/gateway/test_openapi.py",
    ),
    "secured_instance": (
        "tests/interop/identity/test_client_cases.py",
        "tests/interop/identity/test_proxy.py",
        "tests/interop/identity/test_secure_instance.py",
    ),
}
"""Fixture -> files that use it. They run in one process of pytest-xdist: each process would have an instance."""
LIFE_FOLDER = "tests/e2e/life/"
"""Browser tests of an instance with traffic; all others of ``tests/e2e`` use an instance without."""
SPARK_FILES = (
    "tests/e2e/test_newcomer.py",
    "tests/e2e/test_spark_sink.py",
    "tests/e2e/test_spark_source.py",
    "tests/e2e/test_wire.py",  # it opens the pages of analyses, which start Spark
)
"""Browser tests that start Spark, in a process with an instance of their own: they wait most of their time."""
SECURE_FILES = (
    "tests/e2e/test_sign_in.py",
    "tests/e2e/test_sign_in_by_provider.py",
    "tests/e2e/test_what_people_see.py",
)
"""Browser tests of an instance where people sign in, in the order in which they run."""
LAST = (
    FILES["shared_instance"][-1],
    f"{LIFE_FOLDER}test_attention.py",  # it ends the worst problem, which others expect
)
"""Files after which an instance is not as its other tests need it."""
ON_DEMAND = ("redis", "worker", "spark")
"""Parts that start with the first analysis."""


class SharedInstance:
    """Starts an instance when the first file needs it. ``start`` returns one that runs."""

    def __init__(self, start: Callable[[], Instance]) -> None:
        self._start = start
        self._instance: Instance | None = None

    @contextmanager
    def used(self, provoked: Sequence[str] = (), *, spoiled: bool = False) -> Iterator[Instance]:
        """Return the instance for one file; then its parts must run as before, and complain of nothing but ``provoked``
        (regular expressions of log lines). With ``spoiled`` the next file gets a new one in any case."""
        instance = self._started()
        processes = _processes(instance)
        known = Counter(complaints(instance.data_dir))
        try:
            yield instance
        finally:
            is_same = instance.healthy() and _processes(instance) == processes
            if spoiled or not is_same:
                self.close()
        assert is_same, f"parts ended or started anew:\n{instance.logs()}"
        new = Counter(complaints(instance.data_dir, provoked)) - known
        assert not new, "parts of a healthy instance complained:\n" + "\n".join([*new][:50])

    @contextmanager
    def harmed(self) -> Iterator[Instance]:
        """Return the instance for one file that kills parts of it; then all of them must come to run again."""
        instance = self._started()
        try:
            yield instance
        finally:
            try:
                for name in _processes(instance):
                    instance.wait_running(name)
                until_blocking(instance.healthy, instance.logs)
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        instance, self._instance = self._instance, None
        if instance is not None:
            instance.stop()

    def _started(self) -> Instance:
        if self._instance is None:
            self._instance = self._start()
        return self._instance


def _processes(instance: Instance) -> dict[str, int | None]:
    children = instance.control("status")["children"]
    return {child["name"]: child["pid"] for child in children if child["name"] not in ON_DEMAND}


class SharersTogether(LoadFileScheduling):
    """``--dist loadfile``, with all files of a shared instance as if they were one file."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        if file.startswith("tests/e2e/"):
            if file in SECURE_FILES:
                return "secure"
            if file in SPARK_FILES:
                return "spark"
            return "life" if file.startswith(LIFE_FOLDER) else "instance"
        return next((name for name, files in FILES.items() if file in files), file)

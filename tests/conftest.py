"""Fixtures that several suites share: a real ZooKeeper server, a whole instance."""

import asyncio
import os
import signal
import traceback
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from websockets.sync.client import connect

from tests.support.stores.gateway_database import (
    check_folders,
    empty_tables,
    for_postgresql,
    on_a_file,
)
from tests.support.stores.postgresql import ALONE
from tests.support.virtual_time import VirtualLoop
from tests.support.zookeeper.process import ZooKeeperProcess, find_java, zookeeper_missing

if TYPE_CHECKING:  # unit tests do not need them
    from tests.support.instances.shared import SharedInstance, SharersTogether
    from tests.support.net.sealing import Sealer
    from tests.support.stores.etcd_process import EtcdCluster

# A test has the same examples on every run and machine, however busy; HYPOTHESIS_PROFILE=search tries others.
settings.register_profile(
    "same", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "search", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

# In asyncio's debug mode each future keeps the whole stack that made it, which took a third of the unit tests' time.
# Four frames name what made it as well.
traceback.extract_stack.__defaults__ = (None, 4)

# A busy machine delays a handshake; ten seconds, the default of the library, fail a test there.
assert connect.__kwdefaults__ is not None
connect.__kwdefaults__["open_timeout"] = 60

# A shell's background job ignores Ctrl-C, and the processes that it starts inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_asyncio_loop_factories(item: pytest.Item) -> dict[str, Callable[[], Any]]:
    """Return the event loop that the test runs on."""
    virtual = item.get_closest_marker("virtual_time") is not None
    return {"loop": VirtualLoop if virtual else asyncio.new_event_loop}


@pytest.fixture(autouse=True)
def mask_of_file_modes() -> Iterator[None]:
    """Give back the process's mask of file modes, which commands change for their own process."""
    before = os.umask(0o022)
    os.umask(before)
    yield
    os.umask(before)


@pytest.fixture(scope="session")
def zookeeper_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperProcess]:
    """A ZooKeeper server for this test session. A test that stops it starts it again."""
    java = find_java()
    missing = zookeeper_missing()
    if java is None or missing is not None:
        pytest.skip(missing or "no Java")
    server = ZooKeeperProcess(java, tmp_path_factory.mktemp("zookeeper"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def zookeeper_hosts(zookeeper_server: ZooKeeperProcess) -> str:
    """``host:port`` of a real ZooKeeper; each test uses its own chroot."""
    return zookeeper_server.hosts


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator["EtcdCluster"]:
    """An etcd of one member for this test session; each test uses its own chroot."""
    from tests.support.stores.etcd_process import running_etcd

    with running_etcd(tmp_path_factory.mktemp("etcd"), 1) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def sealer(tmp_path_factory: pytest.TempPathFactory) -> "Sealer":
    """Keys that the gateway of the shared instance has, by the name ``mine``."""
    from tests.support.net.sealing import Sealer

    return Sealer(tmp_path_factory.mktemp("keys"), "mine")


@pytest.fixture(scope="session")
def shared_instance(
    tmp_path_factory: pytest.TempPathFactory, sealer: "Sealer"
) -> Iterator["SharedInstance"]:
    """An instance for files whose tests harm none of its parts: ``tests/support/instances/shared.py``."""
    keys = str(sealer.public_file.parent)
    yield from _shared(tmp_path_factory, MAGNETAR_WEBSOCKET_KEY_FOLDER=keys)


@pytest.fixture(scope="session")
def killed_instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SharedInstance"]:
    """A second instance, for files whose tests kill and stop its parts."""
    yield from _shared(tmp_path_factory)


def _shared(folders: pytest.TempPathFactory, **env: str) -> Iterator["SharedInstance"]:
    from tests.support.instance import Instance
    from tests.support.instances.shared import SharedInstance

    def start() -> Instance:
        made = Instance(folders.mktemp("shared"), **env)
        made.start()
        return made

    shared = SharedInstance(start)
    yield shared
    shared.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Move the tests to the end after which an instance cannot be shared. Where the tests of the database run alone, on
    PostgreSQL, leave the others out."""
    from tests.support.instances.shared import LAST

    check_folders(items)
    items.sort(key=lambda item: item.nodeid.startswith(LAST))
    if os.environ.get(ALONE):
        items[:] = for_postgresql(items)


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings_parallel_suffix: None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Settings of the gateway's database: SQLite has a file, as in an instance."""
    on_a_file(tmp_path_factory.mktemp("database"))


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None) -> Iterator[None]:
    """The gateway's database, whose tables are emptied without Django's flush after each test."""
    from django.test import TransactionTestCase

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", empty_tables)
        yield


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> "SharersTogether | None":
    """Return the scheduler for ``--dist loadfile`` that keeps files which share an instance in one process."""
    from tests.support.instances.shared import SharersTogether

    return SharersTogether(config, log) if config.getoption("dist") == "loadfile" else None

"""Restores: into empty clusters alone, continued after an interruption, compared at the end."""

import pytest

from engine.backup.errors import RestoreError
from engine.ledger.errors import LedgerError
from engine.managed.ledger import InitialPosition
from engine.metadata import paths
from engine.metadata.incomplete import RESTORING, IncompleteStoreError, check_complete
from engine.metadata.store import StoreUnavailableError
from tests.sim.kit.disk import FaultDisk
from tests.support.managed_cluster import NAME, Brokers, drain, numbered, publish, rolling
from tests.support.stores.backups import restore, save
from tests.support.stores.failing import FailingStore

pytestmark = pytest.mark.virtual_time


async def saved(brokers: Brokers) -> FaultDisk:
    """Return a disk with a backup of twelve messages."""
    ledger = await brokers.broker().open(NAME, rolling(5))
    await ledger.open_cursor("s", InitialPosition.EARLIEST)
    await publish(ledger, 0, 12)
    disk = FaultDisk()
    await save(brokers, disk)
    return disk


async def all_messages(brokers: Brokers) -> list[bytes]:
    ledger = await brokers.broker().open(NAME, rolling(5))
    return await drain(ledger.cursors["s"])


async def test_a_restore_that_is_interrupted_at_any_call_is_marked_and_continued(
    brokers: Brokers,
) -> None:
    disk = await saved(brokers)
    k, done = 1, False
    while not done:
        target = Brokers()
        await target.start()
        store = FailingStore(target.cluster.server.session(10.0))
        store.fail_at(k, calls=10_000)
        plain = target.cluster.server.session(10.0)
        try:
            await restore(target, disk, store)
            done = True
        except (StoreUnavailableError, LedgerError, RestoreError):
            tree = target.cluster.server.tree
            if tree.exists("/managed-ledgers") or len(target.ledgers()):
                with pytest.raises(IncompleteStoreError, match="magnetar restore"):
                    await check_complete(plain)
        store.heal()
        if not done:
            await restore(target, disk)
        await check_complete(plain)
        assert await all_messages(target) == numbered(0, 12)
        await target.close()
        k += 3 if k < 40 else 11
    assert k > 40


async def test_another_backup_does_not_continue_a_restore(brokers: Brokers, empty: Brokers) -> None:
    disk = await saved(brokers)
    store = empty.cluster.server.session(10.0)
    await store.create(RESTORING, b"another")
    with pytest.raises(RestoreError, match="interrupted restore of backup another"):
        await restore(empty, disk)


@pytest.mark.parametrize(
    "path", ["/admin/policies/t", "/ledgers/00/0000/L0001", "/managed-ledgers"]
)
async def test_a_cluster_that_is_not_empty_is_refused(
    brokers: Brokers, empty: Brokers, path: str
) -> None:
    disk = await saved(brokers)
    store = empty.cluster.server.session(10.0)
    await store.create(path, b"", make_parents=True)
    with pytest.raises(
        RestoreError, match=r"is not empty: its metadata has /.*nothing was changed"
    ):
        await restore(empty, disk)
    assert await store.exists(RESTORING) is None


async def test_a_running_broker_is_named(brokers: Brokers, empty: Brokers) -> None:
    disk = await saved(brokers)
    store = empty.cluster.server.session(10.0)
    await store.create(paths.broker("h:8080"), b"{}", ephemeral=True, make_parents=True)
    with pytest.raises(RestoreError, match="broker h:8080 runs"):
        await restore(empty, disk)


async def test_a_write_of_another_program_meanwhile_is_detected(
    brokers: Brokers, empty: Brokers
) -> None:
    disk = await saved(brokers)
    store = FailingStore(empty.cluster.server.session(10.0))
    path = f"/managed-ledgers/{NAME}"

    def changed(operation: str, called: str) -> bool:
        if operation == "get_all" and empty.cluster.server.tree.exists(path) is not None:
            empty.cluster.server.tree.put(path, b"", -1, 0)
        return False

    store.counted = changed
    with pytest.raises(RestoreError, match="is not as in the backup"):
        await restore(empty, disk, store)


async def test_a_restored_cluster_is_saved_and_restored_again(
    brokers: Brokers, empty: Brokers
) -> None:
    await restore(empty, await saved(brokers))
    disk = FaultDisk()
    manifest = await save(empty, disk)
    assert manifest.missing == ()
    third = Brokers()
    await third.start()
    await restore(third, disk)
    assert await all_messages(third) == numbered(0, 12)
    await third.close()

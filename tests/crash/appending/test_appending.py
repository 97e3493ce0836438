"""Transactions over real processes that are killed, for a short time; ``make appending`` is the long form."""

import asyncio
from pathlib import Path

import pytest

from tests.crash.appending.run import COORDINATORS, MEMBERS, run
from tests.support.instance import running_instance

SECONDS = 20.0


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_lists_that_are_changed_in_transactions_under_kills_have_no_anomaly(tmp_path: Path) -> None:
    with running_instance(
        tmp_path,
        brokers=MEMBERS,
        bookies=MEMBERS,
        MAGNETAR_TRANSACTION_COORDINATOR_ENABLED="true",
    ) as instance:
        path = "/admin/v3/transactions/transactionCoordinator/replicas"
        assert instance.rest("POST", path, COORDINATORS)[0] == 204
        assert asyncio.run(run(instance, SECONDS, 3))

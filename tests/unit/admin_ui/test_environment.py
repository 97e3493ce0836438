"""The console's first request is answered although the store is unavailable."""

import asyncio
from typing import Any

import pytest
from django.test import override_settings

from admin_ui.environment import selectors
from engine.base.addresses import ReachSettings
from engine.metadata.store import StoreUnavailableError
from tests.support.admin.clusters import cluster_without_link

READ = {"clusters": ["standalone", "west"], "broker_url": "pulsar://10.0.0.7:6650"}


async def answers(_: Any) -> dict[str, Any]:
    return READ


async def refused(_: Any) -> dict[str, Any]:
    raise StoreUnavailableError("no quorum")


async def hangs(_: Any) -> dict[str, Any]:
    await asyncio.Event().wait()
    raise AssertionError


async def test_an_unavailable_store_delays_no_answer_and_hides_no_known_value() -> None:
    cluster = cluster_without_link()
    assert (await selectors.environment(cluster, answers))["broker_url"] == READ["broker_url"]
    for away in (refused, hangs):
        async with asyncio.timeout(30):
            environment = await selectors.environment(cluster, away)
        assert environment["cluster"] == "standalone"
        assert environment["clusters"] == READ["clusters"]
        assert environment["broker_url"] == READ["broker_url"]
        assert environment["authentication"] is False


@pytest.mark.parametrize("insecure", [False, True])
async def test_the_console_learns_that_everyone_may_do_everything(insecure: bool) -> None:
    with override_settings(REACH=ReachSettings(insecure)):
        environment = await selectors.environment(cluster_without_link(), answers)
    assert environment["open_to_anyone"] is insecure

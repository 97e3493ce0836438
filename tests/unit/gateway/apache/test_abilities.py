"""The features that a cluster of Apache Pulsar lacks: stated with a reason, and refused with it."""

from pathlib import Path

import pytest

from admin_ui.connections.selectors import connections
from engine.auth.viewer import ALL
from engine.base.errors import Unsupported
from gateway.apache.abilities import LACKS
from gateway.apache_settings import ApacheCluster
from gateway.services.engine_link import EngineLink
from gateway.services.source import OWN, Ability
from tests.support.admin.clusters import cluster_before


def test_every_ability_is_stated_and_our_own_clusters_lack_none() -> None:
    assert set(LACKS) == set(Ability)
    assert all(reason and not reason.endswith(".") for reason in LACKS.values())
    assert not OWN.lacks


def test_programs_do_not_reach_the_cluster_through_the_console(
    apache_cluster: ApacheCluster, link: EngineLink, tmp_path: Path
) -> None:
    cluster = cluster_before(apache_cluster, link, tmp_path)
    for ability in (Ability.SOCKETS, Ability.COPIES):
        with pytest.raises(Unsupported, match=r"\(cluster theirs\)"):
            cluster.require(ability)


async def test_connections_are_refused_as_not_listed_and_not_as_brokers_without_an_answer(
    apache_cluster: ApacheCluster, link: EngineLink, tmp_path: Path
) -> None:
    cluster = cluster_before(apache_cluster, link, tmp_path)
    with pytest.raises(Unsupported, match=r"lists no connections.*\(cluster theirs\)"):
        await connections(ALL, cluster, {})

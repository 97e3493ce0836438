"""Rights of the owners of runs, which are checked again when a run starts: it may have waited since its launch."""

import asyncio

from django.conf import settings

from engine.auth.identity import Identity
from engine.auth.judge import Verdict
from engine.base.errors import MagnetarError
from engine.metadata.apart.stores import connect_stores
from engine.tenancy.access.access_records import AccessRecords
from engine.tenancy.access.policy_judge import create_judge
from gateway.environment import ClusterSettings
from gateway.http.auth.access import Need, rights_are_judged
from gateway.jobs.models import JobRun
from gateway.jobs.rights import needs_of_run
from gateway.people.acting import super_user_roles
from gateway.services.engine_link import CALL_TIMEOUT_S, CONNECT_TIMEOUT_S, SESSION_TIMEOUT_S


class OwnerRefusedError(MagnetarError):
    """The role that launched a run may not read its target now. The text is for users."""


def check_owner(run: JobRun) -> None:
    """Check that the owner of a run may read what the analysis reads, where authorization is on: Spark reads bookies
    without a broker's check (A23).

    Raises OwnerRefusedError, and the errors of the metadata store while that is not known.
    """
    if not rights_are_judged() or run.created_by in super_user_roles():
        return
    for cluster, needs in needs_of_run(run).items():
        verdict = asyncio.run(_judged(run.created_by, _cluster_named(cluster), needs))
        if not verdict.allowed:
            raise OwnerRefusedError(
                f"role {run.created_by!r} may not run this analysis: {verdict.reason}"
            )


async def _judged(role: str, cluster: ClusterSettings, needs: list[Need]) -> Verdict:
    """Return the first refusal of a role's needs, else the last verdict."""
    async with asyncio.timeout(CALL_TIMEOUT_S):
        store = await connect_stores(
            cluster.stores,
            access=cluster.metadata_access,
            session_timeout_s=SESSION_TIMEOUT_S,
            connect_timeout_s=CONNECT_TIMEOUT_S,
        )
        try:
            records = AccessRecords(store)
            judge = create_judge(settings.IDENTITY, records, cluster.name)
            for action, resource in needs:
                judgement = judge.judge(Identity(role or None), action, resource)
                verdict = judgement if isinstance(judgement, Verdict) else await judgement
                if not verdict.allowed:
                    break
            await records.close()
            return verdict
        finally:
            await store.close()


def _cluster_named(name: str) -> ClusterSettings:
    clusters: dict[str, ClusterSettings] = {
        item.name: item for item in settings.CLUSTERS if item.apache is None
    }
    cluster = clusters.get(name) if name else next(iter(clusters.values()), None)
    if cluster is None:
        raise OwnerRefusedError(f"cluster {name} is not among the worker's: {', '.join(clusters)}")
    return cluster

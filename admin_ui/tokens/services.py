"""Revocation of issued tokens (A39)."""

from functools import partial

from engine.base.clock import SystemClock
from engine.tenancy.access.revoked_tokens import revoke_token
from gateway.access.models import IssuedToken
from gateway.clusters.registry import Clusters
from gateway.http.auth.withdrawn import ClusterRevocations
from gateway.services.clock import now_ms
from gateway.services.engine_link import Engine


async def revoke(clusters: Clusters, record: IssuedToken, user: str) -> None:
    """Revoke a token in every cluster that this gateway serves, then note it in its record.

    Raises the errors of a store, after which the token may be revoked in other clusters and is not marked; it can be
    revoked again.
    """
    expires_at = None if record.expires_at_ms is None else record.expires_at_ms / 1000
    for cluster in clusters:
        await cluster.link.arun(partial(_revoke, record.token_id, expires_at))
        await cluster.part(ClusterRevocations).renew()
    if record.revoked_at_ms is None:
        record.revoked_at_ms, record.revoked_by = now_ms(), user[:255]
        await record.asave(update_fields=["revoked_at_ms", "revoked_by"])


async def _revoke(token_id: str, expires_at: float | None, engine: Engine) -> None:
    await revoke_token(engine.store, token_id, expires_at=expires_at, clock=SystemClock())

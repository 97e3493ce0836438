"""The flag that makes stored policies read-only, for superusers too (A21)."""

from engine.auth.authorization.change_rights import judge_change
from engine.auth.authorization.refusal_texts import AccessCheck
from engine.base.errors import Forbidden
from engine.metadata import paths
from engine.metadata.store import MetadataStore

READ_ONLY_FLAG = f"{paths.FLAGS}/policies-readonly"


async def check_writable(store: MetadataStore) -> None:
    """Check that policies may be changed now. Raises Forbidden, and the errors of the store."""
    flag = await store.exists(READ_ONLY_FLAG)
    verdict = judge_change(policies_read_only=flag is not None)
    if not verdict.allowed:
        raise Forbidden(f"{AccessCheck.READ_ONLY.text}. {verdict.reason}")

"""Revoked tokens: ``/magnetar/revoked-tokens/<id>`` in the configuration store, and each process's copy of their ids.

An id is that of ``jws.token_id``. A record holds ``expiresAt`` of its token in seconds since the Unix epoch, after
which it is removed; a record without it stays. Functions raise the errors of the store: then it is unknown whether a
token is revoked.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from engine.auth.authenticators.jws import TOKEN_ID
from engine.base.clock import Clock
from engine.base.errors import Conflict, InvalidField
from engine.metadata import paths
from engine.metadata.cached import fresh
from engine.metadata.follow import MetadataFollower
from engine.metadata.records import RecordFormatError, decode_json, encode_json
from engine.metadata.store import MetadataStore, NoNodeError
from engine.metadata.update import update
from engine.tenancy.nodes import children

REVOKED_MAX = 10_000
"""Records, whose names ZooKeeper sends in one answer of at most 1 MiB."""
SWEPT_AFTER_S = 7200
"""Time after the end of a token for which its record stays: clocks differ, and issuers' tokens have a leeway."""
SWEEP_S = 3600.0
"""Interval at which brokers remove the records of tokens that have ended."""
READ_NODES = 500
"""Records that are read in one request."""


class RevokedToken(NamedTuple):
    """Record of a revoked token. Times are in seconds since the Unix epoch; ``expires_at`` is None for a record that
    stays."""

    token_id: str
    expires_at: float | None
    revoked_at: float


async def revoke_token(
    store: MetadataStore, token_id: str, *, expires_at: float | None, clock: Clock
) -> None:
    """Revoke a token; brokers and gateways refuse it and close its connections within a second.

    ``expires_at``: the end of the token, None when it has none. A token that is revoked already stays so, for the
    longer of both times. Raises InvalidField, and Conflict when too many tokens are revoked.
    """
    check_token_id(token_id)
    now_s = clock.wall_ms() / 1000
    names = await _names(store)
    if len(names) >= REVOKED_MAX and token_id not in names:
        await remove_ended(store, now_s)
        if len(await _names(store)) >= REVOKED_MAX:
            raise Conflict(
                f"{REVOKED_MAX} tokens are revoked, which is the most: replace the key that signs them instead"
            )

    def change(value: bytes) -> bytes:
        before = _record(token_id, value)
        last = None
        if before.expires_at is not None and expires_at is not None:
            last = max(before.expires_at, expires_at)
        return _encoded(before._replace(expires_at=last))

    def created() -> bytes:
        return _encoded(RevokedToken(token_id, expires_at, now_s))

    await update(store, paths.revoked_token(token_id), change, create=created)


async def revoked_tokens(store: MetadataStore) -> list[RevokedToken]:
    """Return the records of all revoked tokens, by id. A damaged record stands as one that stays."""
    records: list[RevokedToken] = []
    names = await _names(store)
    for start in range(0, len(names), READ_NODES):
        some = names[start : start + READ_NODES]
        values, _ = await store.get_all([paths.revoked_token(name) for name in some])
        for name, node in zip(some, values, strict=True):
            if node is not None:
                records.append(_record(name, node[0]))
    return records


async def remove_ended(store: MetadataStore, now_s: float) -> int:
    """Remove the records of tokens that have ended for good; return their number."""
    removed = 0
    for record in await revoked_tokens(store):
        if record.expires_at is not None and record.expires_at + SWEPT_AFTER_S <= now_s:
            with suppress(NoNodeError):
                await store.delete(paths.revoked_token(record.token_id))
                removed += 1
    return removed


def check_token_id(token_id: str) -> None:
    """Raise InvalidField for a text that is no id of a token."""
    if not TOKEN_ID.fullmatch(token_id):
        raise InvalidField(
            "token_id",
            "must have 1 to 71 letters, digits and ._:~=+- and begin with a letter or digit; a token with another jti"
            " is revoked by the token itself",
        )


async def _names(store: MetadataStore) -> Sequence[str]:
    return await children(fresh(store, paths.REVOKED_TOKENS), paths.REVOKED_TOKENS)


def _encoded(record: RevokedToken) -> bytes:
    ends = {} if record.expires_at is None else {"expiresAt": record.expires_at}
    return encode_json({"revokedAt": record.revoked_at, **ends})


def _record(token_id: str, value: bytes) -> RevokedToken:
    try:
        document = decode_json(value, token_id)
        expires_at, revoked_at = document.get("expiresAt"), document.get("revokedAt", 0)
        return RevokedToken(
            token_id, None if expires_at is None else float(expires_at), float(revoked_at)
        )
    except (RecordFormatError, TypeError, ValueError):
        return RevokedToken(token_id, None, 0.0)


class RevokedTokens:
    """Ids of the revoked tokens of ``store``, kept current by its watch (A24); a Container.

    ``load`` must have returned before the first token is checked; ``start`` follows changes from then on, inside the
    running loop. ``on_change`` is called on the loop when ids were added. While the store is away the last known ids
    remain. With ``sweeps`` the records of ended tokens are removed every SWEEP_S.
    """

    def __init__(
        self,
        store: MetadataStore,
        clock: Clock,
        on_change: Callable[[], None],
        *,
        sweeps: bool = False,
    ) -> None:
        self._store = store
        self._clock = clock
        self._on_change = on_change
        self._ids: frozenset[str] = frozenset()
        self._sweeps = sweeps
        self._swept_s = clock.monotonic_s()
        self._follower = MetadataFollower(
            store,
            "revoked tokens",
            [paths.REVOKED_TOKENS],
            self._work,
            every_s=SWEEP_S if sweeps else None,
        )

    def __contains__(self, token_id: object) -> bool:
        return token_id in self._ids

    async def load(self) -> None:
        """Read the ids. Store errors pass through."""
        before, self._ids = self._ids, frozenset(await _names(self._store))
        if self._ids - before:
            self._on_change()

    def start(self) -> None:
        self._follower.start()

    async def close(self) -> None:
        await self._follower.close()

    async def _work(self) -> None:
        await self.load()
        now_s = self._clock.monotonic_s()
        if self._sweeps and now_s - self._swept_s >= SWEEP_S:
            self._swept_s = now_s
            await remove_ended(self._store, self._clock.wall_ms() / 1000)

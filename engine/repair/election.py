"""The election of the auditor. BookKeeper has two places for it, by the kind of its metadata driver, and a cluster may
have bookies of both kinds. A candidate acts as auditor while it is elected in both; it then is the only one (I52)."""

import asyncio
import json
from contextlib import suppress

from engine.metadata import paths
from engine.metadata.protobuf.prototext import escape
from engine.metadata.store import (
    BadVersionError,
    MetadataStore,
    NodeExistsError,
    NoNodeError,
    SessionExpiredError,
    StoreUnavailableError,
)
from engine.repair.marks import read_label

VOTE = "V_"
RESIGN_S = 2.0
"""Longest time in which a candidate that ends removes its nodes: the metadata store may be gone."""


class Election:
    """One candidate. Call ``stand`` again after each change below ``watched`` and in each new session."""

    watched = (paths.AUDITOR_VOTES, paths.AUDITOR_LEADER)

    def __init__(self, store: MetadataStore, candidate: str) -> None:
        self._store = store
        self._candidate = candidate
        self._session = 0
        self.elected = False

    @property
    def leads(self) -> bool:
        """True while this candidate is the auditor and its session cannot have ended."""
        return (
            self.elected and self._session == self._store.session_id and self._store.session_proven
        )

    async def stand(self) -> bool:
        """Vote if this session has not voted yet, and return whether the candidate is elected. Raises the store's
        errors; the candidate is not elected then."""
        self.elected = False
        self._session = self._store.session_id
        text = f"bookieId: {escape(self._candidate.encode())}\n".encode()
        votes = await self._votes()
        if self._own(votes) is None:
            await self._store.create(
                f"{paths.AUDITOR_VOTES}/{VOTE}",
                text,
                ephemeral=True,
                sequence=True,
                make_parents=True,
            )
            votes = await self._votes()
        if not votes or votes[0][1] != self._session or not await self._lead():
            return False
        stored, _ = await self._store.get(paths.AUDITOR_VOTES)
        if stored != text:
            await self._store.put(paths.AUDITOR_VOTES, text)
        self.elected = self._session == self._store.session_id
        return self.elected

    async def _votes(self) -> list[tuple[str, int]]:
        """Return path and session of each vote, the oldest first."""
        try:
            names = await self._store.children(paths.AUDITOR_VOTES)
        except NoNodeError:
            return []
        names = [name for name in names if name.startswith(VOTE)]
        votes = []
        for name in sorted(names, key=lambda name: int(name.removeprefix(VOTE))):
            path = f"{paths.AUDITOR_VOTES}/{name}"
            stat = await self._store.exists(path)
            if stat is not None:
                votes.append((path, stat.ephemeral_owner))
        return votes

    def _own(self, votes: list[tuple[str, int]]) -> str | None:
        return next((path for path, owner in votes if owner == self._session), None)

    async def _lead(self) -> bool:
        """Become leader in the other place; return False while another one is."""
        value = json.dumps(self._candidate).encode()
        with suppress(NodeExistsError):
            await self._store.create(paths.AUDITOR_LEADER, value, ephemeral=True, make_parents=True)
        stat = await self._store.exists(paths.AUDITOR_LEADER)
        return stat is not None and stat.ephemeral_owner == self._session

    async def resign(self) -> None:
        """Remove the vote and the leader's node. Best effort: the session's end removes them as well."""
        self.elected = False
        if not self._session:
            return  # it never voted: an end without the metadata store must not wait for it
        with suppress(StoreUnavailableError, SessionExpiredError, TimeoutError):
            async with asyncio.timeout(RESIGN_S):
                await self._remove_own()

    async def _remove_own(self) -> None:
        own = self._own(await self._votes())
        for path in (paths.AUDITOR_LEADER, own):
            stat = None if path is None else await self._store.exists(path)
            if path and stat is not None and stat.ephemeral_owner == self._session:
                with suppress(NoNodeError, BadVersionError):
                    await self._store.delete(path, stat.version)


async def auditor(store: MetadataStore) -> str | None:
    """Return the id of the elected auditor, of either place; None without one."""
    try:
        votes = await store.children(paths.AUDITOR_VOTES)
    except NoNodeError:
        votes = []
    votes = sorted(
        (name for name in votes if name.startswith(VOTE)),
        key=lambda name: int(name.removeprefix(VOTE)),
    )
    if votes:
        return await read_label(store, f"{paths.AUDITOR_VOTES}/{votes[0]}")
    try:
        value, _ = await store.get(paths.AUDITOR_LEADER)
        return str(json.loads(value))
    except (NoNodeError, ValueError):
        return None

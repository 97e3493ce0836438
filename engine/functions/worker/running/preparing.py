"""The specification of an instance, with its code in a folder of its own that is removed behind it."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from engine.auth.private_files import replace_private, write_private
from engine.base.disk.files import Lane
from engine.base.errors import MagnetarError
from engine.base.tasks import TaskScope, restarting
from engine.functions.definitions import functions_pb2 as pb
from engine.functions.runtime.instance_users import InstanceUsers
from engine.functions.runtime.ports import InstanceSpec, InstanceUser
from engine.functions.runtime.processes import THROUGH
from engine.functions.worker.placing.known_assignments import key_of
from engine.functions.worker.running.function_tokens import RENEWED_EVERY_S, FunctionTokens

BUILTIN = "builtin://"
DEFAULT_NAME = "function.py"


class UnusablePackageError(MagnetarError):
    """A function whose code cannot be fetched, for a reason that a retry may not resolve."""


class FetchPackage(Protocol):
    """Fetches the code of a function. Raises MagnetarError, OSError."""

    async def __call__(self, url: str, target: Path) -> None:
        """Write what ``url`` names to the file ``target``, whose folder exists."""
        ...


@dataclass(frozen=True, slots=True)
class Preparation:
    """Preparation of this worker's instances below ``folder``. ``service_urls`` returns the present brokers' URLs;
    ``common`` are further fields of every InstanceSpec; ``topics`` prepares the topics of a function."""

    folder: Path
    lane: Lane
    fetch: FetchPackage
    service_urls: Callable[[], Awaitable[str]]
    common: Mapping[str, Any] = field(default_factory=dict)
    topics: Callable[[pb.FunctionDetails], Awaitable[None]] | None = None
    tokens: FunctionTokens | None = None
    """Issuer of the instances' tokens; None where functions log in without one."""
    users: InstanceUsers | None = None
    """Users of the operating system that instances run as; None: the worker's own."""

    def make(self, folder: Path) -> None:
        """Make a folder of an instance, which others may pass only where it runs as another user. Raises OSError."""
        folder.mkdir(mode=0o700, parents=True)
        if self.users is not None:
            for made in (self.folder, folder):
                made.chmod(THROUGH)

    async def clear(self) -> None:
        """Remove what an earlier process of this worker has left. Raises OSError."""
        await self.lane.run(partial(_remove, self.folder))

    def close(self) -> None:
        """End the lane."""
        self.lane.close()

    @asynccontextmanager
    async def __call__(self, assignment: pb.Assignment) -> AsyncIterator[InstanceSpec]:
        """Yield the specification of an instance, fetched; remove its code behind it.

        Raises UnusablePackageError, what ``fetch``, ``service_urls`` and ``topics`` raise, OSError.
        """
        instance = assignment.instance
        metadata = instance.functionMetaData
        folder = self.folder / quote(key_of(assignment), safe="")
        code = folder / "code"
        if self.topics is not None:
            await self.topics(metadata.functionDetails)
        await self.lane.run(partial(self._make_empty, folder))
        renewals = TaskScope("token of an instance")
        user = None if self.users is None else self.users.take()
        try:
            token_file = await self._token_file(metadata, folder / "token", renewals, user)
            yield InstanceSpec(
                function=metadata,
                instance=instance.instanceId,
                package=await self._package(metadata, code),
                folder=folder / "run",
                service_url=await self.service_urls(),
                brokers=self.service_urls,
                token_file=token_file,
                user=user,
                **self.common,
            )
        finally:
            await renewals.close()
            if user is not None and self.users is not None:
                self.users.give(user)
            await self.lane.run(partial(_remove, folder))

    def _make_empty(self, folder: Path) -> None:
        _remove(folder)
        self.make(folder)
        (folder / "code").mkdir(mode=0o700)

    async def _token_file(
        self,
        metadata: pb.FunctionMetaData,
        path: Path,
        renewals: TaskScope,
        user: InstanceUser | None,
    ) -> Path | None:
        """Write the token of a function to a file, which is renewed while the instance runs; None without one."""
        tokens = self.tokens
        if tokens is None or not tokens.issue(metadata):
            return None

        async def write() -> None:
            data = tokens.issue(metadata).encode()
            await self.lane.run(partial(_write_token, path, data, user))

        async def renew() -> None:
            while True:
                await asyncio.sleep(RENEWED_EVERY_S)
                await write()

        await write()
        renewals.spawn("renew", restarting("renewal of a function's token", renew))
        return path

    async def _package(self, metadata: pb.FunctionMetaData, code: Path) -> Path | None:
        """Fetch the function's code; None for what is built in."""
        url = metadata.packageLocation.packagePath
        if not url or url.startswith(BUILTIN):
            return None
        # The name is the user's: only its last part, and never one that leaves the folder.
        name = Path(metadata.packageLocation.originalFileName).name
        if name in ("", ".", ".."):
            name = DEFAULT_NAME
        target = code / name
        await self.fetch(url, target)
        return target


def _write_token(path: Path, data: bytes, user: InstanceUser | None) -> None:
    """Write a token for the user of an instance alone, who never finds another's. Raises OSError."""
    if user is None:
        replace_private(path, data)
        return
    draft = path.with_name(f".{path.name}")
    draft.unlink(missing_ok=True)
    write_private(draft, data)
    os.chown(draft, user.uid, user.gid)
    os.replace(draft, path)


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)

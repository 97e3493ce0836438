"""Splits of bundles by their owner, which alone has their exact load. The parts are moved later, by the plan."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from engine.base.errors import MagnetarError
from engine.base.log import bound
from engine.base.names import BundleName, NamespaceName
from engine.metadata.records import Document
from engine.ownership.division import TopicLoad
from engine.ownership.load.planned import MoveSkip
from engine.ownership.load.report import BundleLoad
from engine.ownership.load.settings import LoadBalanceSettings
from engine.ownership.load.split_checks import Overload, SplitChecks, SplitLimits, obstacle


class SplitHost(Protocol):
    """The bundles of a broker and their topics, as the splitter uses them."""

    def loaded_topics(self, bundle: BundleName) -> list[TopicLoad]:
        """Return the load of every loaded topic of a bundle."""
        ...

    async def bundle_count(self, namespace: NamespaceName) -> int:
        """Return the number of bundles of a namespace. Raises NoNamespaceError and the store's errors."""
        ...

    async def split_owned(
        self,
        bundle: BundleName,
        algorithm: str,
        reason: str,
        bundles_max: int,
    ) -> list[BundleName]:
        """Split an owned bundle for the ``reason`` and return its parts, none when the algorithm does not split it.

        Raises Conflict, also when the namespace would have more than ``bundles_max`` bundles, and the store's errors.
        """
        ...


class BundleSplitter:
    """Checks the bundles of one broker at each interval. ``run`` never returns.

    ``skips`` are the bundles above a threshold that the last check has not split, with the reason.
    """

    def __init__(
        self,
        loads: Callable[[], Mapping[BundleName, BundleLoad]],
        host: SplitHost,
        settings: Callable[[], LoadBalanceSettings],
    ) -> None:
        self._loads = loads
        self._host = host
        self._settings = settings
        self._checks = SplitChecks()
        self._logged: dict[tuple[str, str], None] = {}
        self.skips: tuple[MoveSkip, ...] = ()
        self.splits = 0
        """Number of bundles split since the start."""
        self._log = bound(__name__)

    async def run(self, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Check all bundles at each interval."""
        while True:
            await sleep(self._settings().load_balancer_split_interval_minutes * 60.0)
            try:
                await self.check()
            except Exception as error:  # the next check is independent of this one
                self._log.error("bundles not checked: %s", error, exc_info=error)

    async def check(self) -> None:
        """Check all bundles once, and split those that are due. Cancel-safe."""
        settings = self._settings()
        if not (
            settings.load_balancer_enabled and settings.load_balancer_auto_bundle_split_enabled
        ):
            self._checks = SplitChecks()
            self._show(())
            return
        limits = settings.split_limits
        skips: list[MoveSkip] = []
        done = 0
        for overload in self._checks.due(self._loads(), limits):
            if done >= limits.splits_max:
                break
            try:
                skip = await self._split(overload, settings, limits)
            except MagnetarError as error:
                skip = MoveSkip(str(overload.bundle), f"{overload.reason}; {error}", "failed")
            if skip is None:
                done += 1
            else:
                skips.append(skip)
        self._show(tuple(skips))

    async def _split(
        self, overload: Overload, settings: LoadBalanceSettings, limits: SplitLimits
    ) -> MoveSkip | None:
        """Split a bundle; return why it was not split, None when it was. Raises the errors of the host."""
        bundle = overload.bundle
        topics = self._host.loaded_topics(bundle)
        count = await self._host.bundle_count(bundle.namespace)
        if (skip := obstacle(overload, topics, count, limits)) is not None:
            return skip
        algorithm = settings.default_namespace_bundle_split_algorithm
        parts = await self._host.split_owned(bundle, algorithm, overload.reason, limits.bundles)
        if not parts:
            reason = f"{overload.reason}; {algorithm} finds no position to split at"
            return MoveSkip(str(bundle), reason, algorithm)
        self.splits += 1
        self._log.info("bundle split for its load bundle=%s reason=%s", bundle, overload.reason)
        return None

    def _show(self, skips: tuple[MoveSkip, ...]) -> None:
        """Publish what is not split; each is logged when its reason is new."""
        self.skips = skips
        known, self._logged = self._logged, dict.fromkeys((s.subject, s.kind) for s in skips)
        for skip in skips:
            if (skip.subject, skip.kind) not in known:
                self._log.warning("bundle not split bundle=%s reason=%s", skip.subject, skip.reason)

    def document(self) -> list[Document]:
        """Return ``skips`` as JSON objects."""
        return [skip._asdict() for skip in self.skips]

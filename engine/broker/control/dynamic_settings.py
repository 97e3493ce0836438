"""Settings that are changed while brokers run: stored for all brokers, applied by each when the store notifies it.

``/admin/configuration`` holds ``{Pulsar's name: text}``. Only settings declared as ``live`` can be changed. Names that
only other brokers know are kept.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from engine.base.errors import Conflict, MisuseError, PreconditionFailed
from engine.base.log import bound
from engine.base.settings import HIDDEN, Setting, overridden, settings_of
from engine.metadata import paths
from engine.metadata.follow import MetadataFollower
from engine.metadata.records import decode_json, encode_json
from engine.metadata.store import MetadataStore, NoNodeError
from engine.metadata.update import update
from engine.tenancy.checks import check_document_size

ANYTHING = object()
"""Stands for any stored value in ``DynamicSettings.change``."""
T = TypeVar("T")


class DynamicSettings:
    """Settings of one broker. ``groups``: those it was started with; ``use`` is called when those in force changed.

    ``start`` must be called once before the broker serves, inside the running loop.
    """

    def __init__(
        self, store: MetadataStore, groups: Iterable[Any], use: Callable[["DynamicSettings"], None]
    ) -> None:
        self._store = store
        self._base: dict[type, Any] = {type(group): group for group in groups}
        self._in_force = dict(self._base)
        self._use = use
        self._settings: dict[str, tuple[type, Setting]] = {
            setting.pulsar_name: (kind, setting)
            for kind in self._base
            for setting in settings_of(kind, "", False)
            if setting.pulsar_name
        }
        self.names = sorted(
            name for name, (_, setting) in self._settings.items() if setting.is_live
        )
        self._stored: Mapping[str, Any] = {}
        """Values at the last read."""
        self._refused: dict[str, str] = {}
        """Reasons why stored values are not used, which were logged."""
        self._follower = MetadataFollower(
            store, "dynamic settings", [paths.CONFIGURATION], self.load
        )
        self._log = bound(__name__)

    def of(self, kind: type[T]) -> T:
        """Return the group of this type with the values in force."""
        group = self._in_force[kind]
        if not isinstance(group, kind):
            raise MisuseError(f"{kind.__name__} is no group of settings")
        return group

    def runtime(self) -> dict[str, str]:
        """Return the values in force by Pulsar's names."""
        return {
            name: _text(setting, getattr(self._in_force[kind], setting.item.name))
            for name, (kind, setting) in self._settings.items()
        }

    def live(self) -> list[dict[str, Any]]:
        """Return all settings that may be changed, see ``engine.admin.api.dynamic_settings.LIVE_SETTINGS``."""
        return [self._line(name, self._stored.get(name)) for name in self.names]

    def live_if(self, name: str, value: str | None) -> list[dict[str, Any]]:
        """Return a setting as it would be with ``value`` stored, None for no value; empty when it may not change."""
        return [self._line(name, value)] if name in self.names else []

    def _line(self, name: str, value: Any) -> dict[str, Any]:
        kind, setting = self._settings[name]
        values = {**self._stored, name: value}
        if value is None:
            del values[name]
        would_be, refused = self._overridden(values)

        def text_of(groups: dict[type, Any]) -> str:
            return _text(setting, getattr(groups[kind], setting.item.name))

        return {
            "name": name,
            "meaning": setting.item.metadata["help"].removesuffix(f"({name})").strip(),
            "allowed": setting.allowed,
            "choices": list(setting.item.metadata.get("choices") or ()),
            "default": _text(setting, setting.item.default),
            "started": text_of(self._base),
            "in_force": text_of(self._in_force),
            "last_read": self._stored.get(name),
            "refused": self._refused.get(name, ""),
            "would_be": text_of(would_be),
            "refusal": refused.get(name, ""),
        }

    async def start(self) -> None:
        """Apply the stored values now and after each change. Raises the store's errors."""
        self._follower.start(at_once=False)
        try:
            await self.load()
        except ValueError as error:
            self._log.warning("dynamic settings not used reason=%s", error)

    async def close(self) -> None:
        await self._follower.close()

    async def values(self) -> Mapping[str, str]:
        """Return the stored values. Raises the store's errors, ValueError when they cannot be decoded."""
        try:
            value, _ = await self._store.get(paths.CONFIGURATION)
        except NoNodeError:
            return {}
        return decode_json(value, "dynamic settings")

    async def load(self) -> None:
        """Apply the values stored now. An invalid value is logged once and left out. Raises as ``values`` does."""
        stored = await self.values()
        in_force, refused = self._overridden(stored)
        for name, reason in refused.items():
            if self._refused.get(name) != reason:
                self._log.warning("dynamic setting not used name=%s reason=%s", name, reason)
        self._stored, self._refused = stored, refused
        if in_force != self._in_force:
            self._in_force = in_force
            self._use(self)

    async def change(self, name: str, value: str | None, *, expected: Any = ANYTHING) -> str | None:
        """Store ``value``, or remove it when None; return the previously stored value.

        The change is durable and in force here when it returns. Raises PreconditionFailed; Conflict when the stored
        value is not ``expected``.
        """
        previous: str | None = None
        if name not in self.names:
            verb = "delete" if value is None else "update"
            raise PreconditionFailed(f"Can't {verb} non-dynamic configuration")

        def edit(stored: bytes) -> bytes:
            nonlocal previous
            values = decode_json(stored, "dynamic settings")
            previous = values.pop(name, None)
            if expected is not ANYTHING and previous != expected:
                raise Conflict(f"{name} was changed meanwhile; look at it again")
            if value is not None:
                values[name] = value
            reason = self._overridden(values)[1].get(name)
            if reason is not None:
                raise PreconditionFailed(f"Invalid dynamic-config value: {name}: {reason}")
            return check_document_size("dynamic settings", encode_json(values))

        await update(self._store, paths.CONFIGURATION, edit, create=lambda: edit(b"{}"))
        await self.load()
        return previous

    def _overridden(self, values: Mapping[str, str]) -> tuple[dict[type, Any], dict[str, str]]:
        """Return the groups with these values, and the reasons why some are not used, by name."""
        groups: dict[type, Any] = {}
        refused: dict[str, str] = {}
        for kind, group in self._base.items():
            groups[kind], reasons = overridden(group, values)
            refused |= reasons
        return groups, refused


def _text(setting: Setting, value: Any) -> str:
    if setting.is_secret:  # A11
        return HIDDEN if value else ""
    if isinstance(value, bool):
        return str(value).lower()
    if setting.item.metadata.get("bytes") and setting.pulsar_name.endswith("MB"):
        value >>= 20
    return "" if value is None else str(value)

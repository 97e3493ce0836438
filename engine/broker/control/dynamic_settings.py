"""Settings that are changed while brokers run: stored for all of them, acted upon by each as soon as the store tells.

``/admin/configuration`` holds ``{Pulsar's name: text}``. Only settings declared as ``live`` change; names that are
other brokers' are kept and left alone.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from engine.base.errors import Conflict, MisuseError, PreconditionFailed
from engine.base.log import bound
from engine.base.settings import Setting, overridden, settings_of
from engine.metadata import paths
from engine.metadata.follow import MetadataFollower
from engine.metadata.records import decode_json, encode_json
from engine.metadata.store import MetadataStore, NoNodeError
from engine.metadata.update import update
from engine.tenancy.checks import check_document_size

ANYTHING = object()
T = TypeVar("T")


class DynamicSettings:
    """Of one broker. ``groups``: what it was started with; ``use`` is called when what is in force changed.

    ``start`` once before the broker serves, inside the running loop.
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
        self.names = sorted(name for name, (_, one) in self._settings.items() if one.is_live)
        self._heard: Mapping[str, Any] = {}
        self._told: dict[str, str] = {}
        self._follower = MetadataFollower(
            store, "dynamic settings", [paths.CONFIGURATION], self.load
        )
        self._log = bound(__name__)

    def of(self, kind: type[T]) -> T:
        """The group of this type as it is in force."""
        found = self._in_force[kind]
        if not isinstance(found, kind):
            raise MisuseError(f"{kind.__name__} is no group of settings")
        return found

    def runtime(self) -> dict[str, str]:
        """What is in force by Pulsar's names."""
        return {
            name: _text(setting, getattr(self._in_force[kind], setting.item.name))
            for name, (kind, setting) in self._settings.items()
        }

    def live(self) -> list[dict[str, Any]]:
        """All that may change, as of ``engine.admin.api.LIVE_SETTINGS``."""
        return [self._line(name, self._heard.get(name)) for name in self.names]

    def live_if(self, name: str, value: str | None) -> list[dict[str, Any]]:
        """One of them, as it would be with ``value`` stored, None: nothing; none when it may not change."""
        return [self._line(name, value)] if name in self.names else []

    def _line(self, name: str, value: Any) -> dict[str, Any]:
        kind, setting = self._settings[name]
        values = {**self._heard, name: value}
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
            "last_read": self._heard.get(name),
            "refused": self._told.get(name, ""),
            "would_be": text_of(would_be),
            "refusal": refused.get(name, ""),
        }

    async def start(self) -> None:
        """Act by what is stored, now and from now on. Raises the store's errors."""
        self._follower.start(at_once=False)
        try:
            await self.load()
        except ValueError as error:
            self._log.warning("dynamic settings not used reason=%s", error)

    async def close(self) -> None:
        await self._follower.close()

    async def values(self) -> Mapping[str, str]:
        """What is stored. Raises the store's errors, ValueError when it cannot be read."""
        try:
            value, _ = await self._store.get(paths.CONFIGURATION)
        except NoNodeError:
            return {}
        return decode_json(value, "dynamic settings")

    async def load(self) -> None:
        """Act by what is stored now. A value that is none is told once and left out. Raises as ``values``."""
        heard = await self.values()
        in_force, refused = self._overridden(heard)
        for name, why in refused.items():
            if self._told.get(name) != why:
                self._log.warning("dynamic setting not used name=%s reason=%s", name, why)
        self._heard, self._told = heard, refused
        if in_force != self._in_force:
            self._in_force = in_force
            self._use(self)

    async def change(self, name: str, value: str | None, *, expected: Any = ANYTHING) -> str | None:
        """Store ``value``, None removes it; durable and in force here when it returns what was stored before. Raises
        PreconditionFailed, Conflict when what is stored now is not ``expected``."""
        before: str | None = None
        if name not in self.names:
            verb = "delete" if value is None else "update"
            raise PreconditionFailed(f"Can't {verb} non-dynamic configuration")

        def edit(stored: bytes) -> bytes:
            nonlocal before
            values = decode_json(stored, "dynamic settings")
            before = values.pop(name, None)
            if expected is not ANYTHING and before != expected:
                raise Conflict(f"{name} was changed meanwhile; look at it again")
            if value is not None:
                values[name] = value
            why = self._overridden(values)[1].get(name)
            if why is not None:
                raise PreconditionFailed(f"Invalid dynamic-config value: {name}: {why}")
            return check_document_size("dynamic settings", encode_json(values))

        await update(self._store, paths.CONFIGURATION, edit, create=lambda: edit(b"{}"))
        await self.load()
        return before

    def _overridden(self, values: Mapping[str, str]) -> tuple[dict[type, Any], dict[str, str]]:
        """Groups with these values, and why some are left out, by name."""
        found: dict[type, Any] = {}
        refused: dict[str, str] = {}
        for kind, group in self._base.items():
            found[kind], why = overridden(group, values)
            refused |= why
        return found, refused


def _text(setting: Setting, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if setting.item.metadata.get("bytes") and setting.pulsar_name.endswith("MB"):
        value >>= 20
    return "" if value is None else str(value)

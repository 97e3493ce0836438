"""The subject of a command of operation: an instance with its data folder, or a cluster whose parts run separately."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from engine.base.log import LogSettings
from engine.base.settings import PortOffset, Program
from engine.metadata.settings import MetadataSettings
from gateway.database.settings import DatabaseSettings
from gateway.standalone import plan
from gateway.standalone.clusters import stored_names
from gateway.standalone.control import NotRunningError, send_request
from gateway.standalone.data_folder import DataFolderError, bookies, held
from gateway.standalone.secure import SecureFiles
from gateway.standalone.settings import InstanceSettings, StandaloneSettings
from gateway.standalone.storage import client_environment, instance_children, storage

STATUS_S = 10.0


@dataclass(frozen=True, slots=True)
class _PlaceSettings:
    metadata: MetadataSettings
    database: DatabaseSettings
    instance: InstanceSettings = field(default_factory=InstanceSettings)
    offset: PortOffset = field(default_factory=PortOffset)
    log: LogSettings = field(default_factory=LogSettings)


@dataclass(frozen=True, slots=True)
class OperatedPlace:
    """An instance, or with ``cluster`` the cluster of the settings. ``data_dir`` is the instance's, or the gateway's.

    ``environ`` and ``directory`` are those from which settings are read.
    """

    data_dir: Path
    database: DatabaseSettings
    cluster: bool
    environ: Mapping[str, str]
    directory: Path
    settings: StandaloneSettings

    @classmethod
    def load(
        cls, environ: Mapping[str, str], directory: Path, data_dir: Path | None
    ) -> "OperatedPlace":
        """Load the settings. A metadata URL in them names a cluster; else the folder is that of an instance.

        Raises SettingsError.
        """
        given: dict[str, Any] = {"data_dir": None if data_dir is None else str(data_dir)}
        loaded = Program("gateway", _PlaceSettings, partial=True).load(environ, directory, given)
        folder = loaded.instance.data_dir.absolute()
        own = StandaloneSettings(
            replace(loaded.instance, data_dir=folder), loaded.offset, loaded.log
        )
        cluster = bool(loaded.metadata.metadata_url)
        return cls(folder, loaded.database, cluster, environ, directory, own)

    def running(self) -> list[dict[str, Any]]:
        """Return the children of the running instance; none when it does not run."""
        try:
            answer = send_request(plan.control_socket(self.data_dir), "status", timeout_s=STATUS_S)
        except (NotRunningError, OSError):
            return []
        children: list[dict[str, Any]] = answer.get("children", [])
        return children

    def options(
        self, number: int, settings: StandaloneSettings | None = None
    ) -> plan.InstanceOptions:
        """Return the options of the instance with ``number`` bookies; secure where its folder has the files for it."""
        secure = SecureFiles(
            self.data_dir, self.environ.get("MAGNETAR_AUTHENTICATION_PROVIDERS", "")
        )
        return plan.InstanceOptions(
            data_dir=self.data_dir,
            settings=settings or self.settings,
            bookies=max(1, number),
            secure=secure if secure.token_key.exists() else None,
        )

    @contextmanager
    def readable(self) -> Iterator[Mapping[str, str]]:
        """Yield the variables by which metadata and bookies are reached; of an instance that does not run they are
        started for the block. Raises DataFolderError."""
        if self.cluster:
            yield self.environ
        elif names := stored_names(self.data_dir):
            raise DataFolderError(
                f"{self.data_dir} has {len(names)} clusters: name the stores of one by MAGNETAR_METADATA_URL and"
                " MAGNETAR_CONFIGURATION_METADATA_STORE_URL, while the instance runs"
            )
        elif children := self.running():
            yield {**self.environ, **self._of_running(children)}
        else:
            with held(self.data_dir), storage(self.options(bookies(self.data_dir))) as variables:
                yield {**self.environ, **variables}

    def _of_running(self, children: list[dict[str, Any]]) -> Mapping[str, str]:
        """Return the variables of the clients of a running instance, whose ports may be other ones than now set."""
        ports = {child["name"]: child["ports"] for child in children}
        instance = replace(self.settings.instance, zookeeper_port=ports["zookeeper"]["zookeeper"])
        options = self.options(1, replace(self.settings, instance=instance))
        if "pulsar+ssl" not in ports.get("broker-1", {}):
            options = replace(options, secure=None)
        return client_environment(instance_children(options))


def keep_private() -> None:
    """Make the files of this process readable for its user alone."""
    os.umask(0o077)

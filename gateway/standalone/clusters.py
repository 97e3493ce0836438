"""The clusters of an instance that has several: their names, and the records by which they know each other."""

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.base.names import NamespaceName
from engine.base.settings import Program
from engine.metadata import paths
from engine.metadata.apart.stores import connect_stores
from engine.metadata.records import Document, decode_json, encode_json
from engine.metadata.settings import MetadataSettings
from engine.metadata.store import MetadataStore
from engine.metadata.update import update
from engine.tenancy.clusters import GLOBAL_CLUSTER, initial_cluster
from engine.tenancy.initialization import NAMESPACES, ensure_namespace, ensure_tenant
from engine.tenancy.namespaces import bootstrap
from engine.tenancy.settings import TenantLimits
from gateway.standalone.data_folder import CLUSTERS, bookies
from gateway.standalone.plan import CLUSTER, Child, InstanceOptions

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
CLUSTERS_MAX = 16


class ClustersError(Exception):
    """The list of clusters cannot be used. The text is one line for the operator."""


@dataclass(frozen=True, slots=True)
class _Settings:
    metadata: MetadataSettings
    tenants: TenantLimits


def parse_names(text: str) -> tuple[str, ...]:
    """Return the names of ``--clusters``. Raises ClustersError."""
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if NAME.fullmatch(name) is None:
            raise ClustersError(
                "--clusters must be names with commas between, each of at most 63 letters, digits, - and _,"
                f" not {name!r}"
            )
        if name in (GLOBAL_CLUSTER, CLUSTER):
            raise ClustersError(f"--clusters: no cluster of several can have the name {name}")
        if names.count(name) > 1:
            raise ClustersError(f"--clusters names {name} twice")
    if not 2 <= len(names) <= CLUSTERS_MAX:
        raise ClustersError(
            f"--clusters must have from 2 to {CLUSTERS_MAX} names, not {len(names)}"
        )
    return names


def stored_names(data_dir: Path) -> tuple[str, ...]:
    """Return the clusters whose data the folder has, in order; none for a new folder and one of a single cluster."""
    try:
        return tuple(json.loads((data_dir / CLUSTERS).read_text()))
    except FileNotFoundError:
        return ()


def keep_names(data_dir: Path, names: Sequence[str]) -> None:
    """Store the clusters of a start. Raises ClustersError when the data of the folder is that of others.

    Further clusters may be added at the end. One that is left out would keep the messages that others send to it
    waiting, and another first one would get the gateway's history.
    """
    before = stored_names(data_dir)
    elsewhere = "or choose another folder with MAGNETAR_DATA_DIR=/some/folder"
    if before != tuple(names[: len(before)]):
        raise ClustersError(
            f"{data_dir} has the clusters {','.join(before)}. Start it with --clusters {','.join(before)},"
            f" which further ones may follow, {elsewhere}"
        )
    if names and not before and (bookies(data_dir) or (data_dir / "metadata").exists()):
        raise ClustersError(
            f"{data_dir} has the data of one cluster. Start it without --clusters, {elsewhere}"
        )
    if before != tuple(names):
        draft = data_dir / f"{CLUSTERS}.lock"
        draft.write_text(json.dumps(names))
        draft.rename(data_dir / CLUSTERS)


def addresses(options: InstanceOptions, children: Sequence[Child]) -> dict[str, dict[str, str]]:
    """Return the addresses of each cluster by the names that its record has for them."""
    host, ports = options.host, options.ports()
    # Certificates are for this name of the machine, too, and replicators send tokens.
    tls_host = "localhost"
    records = {}
    for member in options.members:
        brokers = [
            part.ports
            for part in children
            if part.cluster == member.name and "pulsar" in part.ports
        ]
        path = f"/clusters/{member.name}" if member.number else ""
        record = {
            "serviceUrl": f"http://{host}:{ports['HTTP']}{path}",
            "brokerServiceUrl": _url("pulsar", host, brokers),
        }
        if options.secure:
            record |= {
                "serviceUrlTls": f"https://{tls_host}:{ports['HTTPS']}{path}",
                "brokerServiceUrlTls": _url("pulsar+ssl", tls_host, brokers),
            }
        records[member.name] = record
    return records


def _url(label: str, host: str, brokers: Sequence[Mapping[str, int]]) -> str:
    return f"{label}://" + ",".join(f"{host}:{ports[label]}" for ports in brokers)


async def write_records(options: InstanceOptions, children: Sequence[Child]) -> None:
    """Write the addresses of all clusters, of which the ports may have changed, and give new ones the first namespaces.

    What else the records have stays. Raises the store's errors, and DamagedRecordError.
    """
    first = next(part for part in children if part.cluster == options.clusters[0])
    program = Program("broker", _Settings, partial=True)
    settings = program.load({**os.environ, **first.env}, Path.cwd())
    store = await connect_stores(settings.metadata.stores, access=settings.metadata.access)
    try:
        records = addresses(options, children)
        urls = records[options.clusters[0]]
        await bootstrap(
            store,
            cluster=options.clusters[0],
            broker_url=urls["brokerServiceUrl"],
            web_url=urls["serviceUrl"],
            default_bundles=settings.tenants.default_number_of_namespace_bundles,
        )
        for name, record in records.items():
            # Once only: an administrator may take a namespace out of a cluster later.
            if await store.exists(paths.cluster(name)) is None:
                for namespace in map(NamespaceName.parse, NAMESPACES):
                    await ensure_tenant(store, namespace.tenant, name)
                    await ensure_namespace(store, namespace, name)
            await _write_record(store, name, record, tls=options.secure is not None)
    finally:
        await store.close()


async def _write_record(
    store: MetadataStore, name: str, record: Mapping[str, str], *, tls: bool
) -> None:
    path = paths.cluster(name)
    given: Document = {**record, "brokerClientTlsEnabled": tls}

    def change(value: bytes) -> bytes | None:
        present = decode_json(value, path)
        changed = {**present, **given}
        return None if changed == present else encode_json(changed)

    await update(store, path, change, create=lambda: encode_json(initial_cluster(given)))

"""The functions worker: its composition from the seams, and its program."""

import logging
import os
from pathlib import Path
from urllib.parse import quote

from engine.admin.client import AdminClient
from engine.auth.internal import load_token
from engine.base.clock import Clock
from engine.base.disk.files import SystemDisk, ThreadLane
from engine.base.entropy import Entropy
from engine.base.settings import SettingsError
from engine.functions.packages.package_client import PackageClient
from engine.functions.packages.package_files import PackageFetcher, UploadedPackages
from engine.functions.runtime.cpu_groups import CpuGroups
from engine.functions.runtime.errors import InstanceError
from engine.functions.runtime.instance_users import InstanceUsers
from engine.functions.runtime.processes import THROUGH
from engine.functions.runtime.runtime_kinds import runtime_of
from engine.functions.runtime.trials import TrialRunner
from engine.functions.runtime.unpacking import Unpacker
from engine.functions.worker.running.function_tokens import FunctionTokens
from engine.functions.worker.running.output_deduplication import OutputDeduplication
from engine.functions.worker.running.preparing import Preparation
from engine.functions.worker.settings import PROGRAM, WorkerProgramSettings
from engine.functions.worker.worker_service import FunctionsWorker, WorkerResources
from engine.metadata.store import MetadataStore
from engine.net.network import Network
from engine.programs.program import EngineProgram

log = logging.getLogger(__name__)

FOLDER = "functions"
"""Folder in the data folder with the code of instances and their environments."""
INSTANCES = "instances"
CALL_S = 30.0


def build_functions_worker(
    settings: WorkerProgramSettings,
    /,
    *,
    clock: Clock,
    entropy: Entropy,
    network: Network,
    store: MetadataStore,
) -> FunctionsWorker:
    """Build a worker without starting it. Call it inside a running event loop. Raises TokenError, ProviderError,
    SettingsError."""
    worker, instance, client = settings.worker, settings.instance, settings.broker_client
    authenticated = settings.authentication.authentication_enabled
    if warning := settings.reach.warning(
        "bind_address", worker.bind_address, authenticated=authenticated
    ):
        log.warning("%s", warning)
    folder = Path(worker.download_directory or instance.data_dir / FOLDER).absolute()
    users = users_of(settings, folder)
    groups = CpuGroups.of_this_process()
    if groups.reason:
        log.info("processors of instances are not limited: %s", groups.reason)
    try:
        runtime = runtime_of(worker.function_runtime, folder / "environments", groups=groups)
    except InstanceError as error:
        raise SettingsError(f"function_runtime: {error}") from error
    token = load_token(instance.data_dir, instance.internal_token, entropy)
    brokers = AdminClient(store, network, token, timeout_s=CALL_S, tls=client.tls())
    packages = PackageClient(brokers)
    own_id = settings.id_at(worker.worker_port)

    async def service_url() -> str:
        encrypted = client.broker_client_tls_enabled
        urls = [
            broker.service_url_tls if encrypted else broker.service_url
            for broker in await brokers.brokers()
        ]
        scheme = "pulsar+ssl://" if encrypted else "pulsar://"
        return scheme + ",".join(url.removeprefix(scheme) for url in urls if url)

    return FunctionsWorker(
        WorkerResources(
            settings=settings,
            token=token,
            clock=clock,
            entropy=entropy,
            network=network,
            store=store,
            runtime=runtime,
            preparation=Preparation(
                folder / INSTANCES / quote(own_id, safe=""),
                ThreadLane("functions"),
                PackageFetcher(
                    packages, SystemDisk(), ThreadLane("packages"), worker.package_bytes_max
                ),
                service_url,
                {
                    "cluster": instance.cluster_name,
                    "worker_id": own_id,
                    "trust_certs_file": _path(client.broker_client_trust_certs_file_path),
                    "verify_hostname": client.tls_hostname_verification_enabled,
                },
                OutputDeduplication(brokers),
                FunctionTokens(instance.token_signing_key, settings.token, clock)
                if instance.token_signing_key
                else None,
                users,
            ),
            brokers=brokers,
            removals=(UploadedPackages(packages).remove_of,),
            trials=TrialRunner(Unpacker(folder / "environments"), users),
        )
    )


def users_of(settings: WorkerProgramSettings, folder: Path) -> InstanceUsers | None:
    """Return the users that instances run as; None: this process's own. Raises SettingsError when that is not possible.

    ``folder``: that of all instances.
    """
    worker, client = settings.worker, settings.broker_client
    if not worker.run_as_user:
        log.info("user code runs as this worker's user, %s, and can read its files", os.getuid())
        return None
    certificates = _path(client.broker_client_trust_certs_file_path)
    try:
        if worker.function_runtime.rpartition(".")[2].lower().startswith("thread"):
            raise InstanceError(
                "threads run as the worker's user: function_runtime must be process"
            )
        users = InstanceUsers.parse(worker.run_as_user)
        folder.mkdir(parents=True, exist_ok=True)
        for made in (folder, folder / INSTANCES):
            made.mkdir(exist_ok=True)
            made.chmod(THROUGH)
        users.check(folder, [] if certificates is None else [certificates])
        users.end_left_over()
    except (InstanceError, OSError) as error:
        raise SettingsError(f"run_as_user: {error}") from error
    if users.are_shared:
        log.warning(
            "all instances run as user %s: functions can read each other's files; a range separates them",
            worker.run_as_user,
        )
    return users


def _path(text: str) -> Path | None:
    return Path(text).absolute() if text else None


FUNCTIONS_WORKER = EngineProgram(
    load=PROGRAM.load,
    build=build_functions_worker,
    session_timeout_s=lambda settings: settings.worker.metadata_store_session_timeout_millis / 1000,
    ports=lambda settings: f"port {settings.worker.worker_port} on {settings.worker.bind_address}",
)

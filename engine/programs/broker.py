"""The broker: its composition from the seams, which the simulator calls with its own, and its program."""

import logging
from dataclasses import replace
from functools import partial

from engine.auth.internal import load_token
from engine.base.clock import Clock
from engine.base.entropy import Entropy
from engine.broker.running import BrokerResources
from engine.broker.service import BrokerService
from engine.ledger.client import LedgerClient
from engine.managed.factory import ManagedLedgerFactory
from engine.metadata.store import MetadataStore
from engine.net.network import Network
from engine.offload.object_names import attributes_of
from engine.offload.stores.obstore_stores import ConfiguredStores
from engine.offload.tiered_storage import TieredStorage
from engine.programs.program import EngineProgram
from engine.settings import Settings, load
from engine.wire.commands import SERVER_VERSION

log = logging.getLogger(__name__)


def build_broker(
    settings: Settings, /, *, clock: Clock, entropy: Entropy, network: Network, store: MetadataStore
) -> BrokerService:
    """Build a broker without starting it. Call it inside a running event loop. Raises TokenError."""
    authenticated = settings.authentication.authentication_enabled
    host = settings.node.bind_address
    if warning := settings.reach.warning("bind_address", host, authenticated=authenticated):
        log.warning("%s", warning)
    ledgers = LedgerClient(
        store=store, network=network, clock=clock, entropy=entropy, settings=settings.ledger
    )
    cache_bytes = settings.defaults.managed_ledger_cache_size_mb << 20
    offload = settings.offload
    storage = offload.policy
    factory = ManagedLedgerFactory(
        store=store,
        ledgers=ledgers,
        clock=clock,
        entropy=entropy,
        settings=replace(settings.managed, cache_bytes_max=cache_bytes),
        tiered=TieredStorage(
            ConfiguredStores(None if storage is None else storage.bucket),
            attributes_of(settings.node.cluster_name, SERVER_VERSION),
            offload.limits,
        ),
    )
    return BrokerService(
        BrokerResources(
            node=settings.node,
            data_path=settings.data_path,
            transactions=settings.transactions,
            policies=settings.policies,
            tenants=settings.tenants,
            broker_client=settings.broker_client,
            identity=settings.identity,
            tls=settings.tls,
            ledger_config=partial(settings.defaults.config, storage=storage),
            token=load_token(settings.node.data_dir, settings.node.internal_token, entropy),
            store=store,
            clock=clock,
            entropy=entropy,
            network=network,
            ledgers=ledgers,
            factory=factory,
            offload=offload,
            groups=(
                *(settings.node, settings.tls, settings.data_path, settings.policies),
                *(settings.transactions, settings.offload),
                *(settings.load_balance, settings.tenants),
                *(settings.defaults, settings.managed, settings.metadata, settings.broker_client),
                *(settings.authentication, settings.token, settings.second_token),
                *(settings.basic, settings.open_id, settings.authorization),
            ),
        )
    )


BROKER = EngineProgram(
    load=load,
    build=build_broker,
    session_timeout_s=lambda settings: settings.node.metadata_store_session_timeout_millis / 1000,
    ports=lambda settings: (
        f"ports {settings.node.broker_port} and {settings.node.broker_http_port}"
        f" on {settings.node.bind_address}"
    ),
)

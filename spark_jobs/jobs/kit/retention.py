"""Retention of topics: by their own policies, which a namespace logs in a topic, by the namespace, or by default."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from engine.base.names import NamespaceName, TopicName
from engine.metadata import paths, records
from engine.metadata.store import NoNodeError
from engine.tenancy.change_events import SCHEMA, key_of, log_topic, policies_of
from engine.tenancy.policies.in_force import in_force
from engine.tenancy.settings import PolicySettings
from spark_jobs.pulsar_source.batch import TrimmedError, open_range
from spark_jobs.pulsar_source.connection import connected_store
from spark_jobs.pulsar_source.options import OptionError, Options, TopicChoice
from spark_jobs.pulsar_source.planning import plan_topics


@dataclass(frozen=True, slots=True)
class Retention:
    """Limits of acknowledged data, of which exceeding one is enough: 0 keeps nothing, -1 has no limit.

    ``level``: where it is set; "broker" where it is not, for which Pulsar's default is assumed.
    """

    minutes: int = 0
    megabytes: int = 0
    level: str = "broker"


def retention_of(options: Options, topics: Iterable[str]) -> dict[str, Retention]:
    """Return the retention of topics by their names. Blocks. Raises StoreUnavailableError, LedgerError."""
    names = [TopicName.parse(topic) for topic in topics]
    namespaces = {name.namespace for name in names}
    documents = asyncio.run(_documents(options, namespaces))
    logs = {namespace: _logged(options, namespace) for namespace in namespaces}
    retentions: dict[str, Retention] = {}
    for name in names:
        keys = (key_of(name.partitioned, everywhere=scope) for scope in (False, True))
        own, everywhere = (logs[name.namespace].get(key, {}) for key in keys)
        policies = in_force(PolicySettings(), documents[name.namespace], own, everywhere)
        value, level = policies["retention"]
        minutes, megabytes = value["retentionTimeInMinutes"], value["retentionSizeInMB"]
        retentions[str(name)] = Retention(minutes, megabytes, str(level.value))
    return retentions


async def _documents(
    options: Options, namespaces: Iterable[NamespaceName]
) -> dict[NamespaceName, dict[str, Any]]:
    documents: dict[NamespaceName, dict[str, Any]] = {}
    async with connected_store(options.stores) as store:
        for namespace in namespaces:
            path = paths.namespace_policies(str(namespace))
            documents[namespace] = {}
            with suppress(NoNodeError):  # deleted meanwhile
                documents[namespace] = records.decode_json((await store.get(path))[0], path)
    return documents


def _logged(options: Options, namespace: NamespaceName) -> dict[str, dict[str, Any]]:
    """Return the policies of the namespace's topics by the key of their events, the last of which counts."""
    chosen = TopicChoice(topics=(str(log_topic(namespace)),))
    try:
        planned = plan_topics(replace(options, selection=chosen, last_entries=0))
    except OptionError:  # no topic of the namespace ever had a policy
        return {}
    policies: dict[str, dict[str, Any]] = {}
    for ledger_range in planned:
        with suppress(TrimmedError):  # later events of the same keys follow
            for opened in open_range(options, ledger_range, ("key", "value")):
                keys, values = (opened.messages[name].to_pylist() for name in ("key", "value"))
                for key, value in zip(keys, values, strict=True):
                    policies[key] = policies_of(SCHEMA.decode(value)) if value else {}
    return policies

"""Means that a job has for the clusters of its run: options of the stores, and questions to the brokers."""

import asyncio
from collections.abc import Sequence
from typing import Any

from django.conf import settings

from engine.admin.api.subscriptions import HOLDERS, Holders
from engine.base.errors import InvalidField
from engine.base.names import TopicName
from engine.metadata.apart.stores import StoreUrls
from gateway.clusters.configured import open_engine
from gateway.environment import ClusterSettings
from gateway.jobs.models import JobRun
from gateway.services.catalog import each
from gateway.services.engine_link import FAILURES, Engine
from spark_jobs.analysis import OTHER, AskHolders, store_options

ASK_S = 8.0
"""Time within which the brokers must say who holds messages; a cancelled run must end within ten seconds."""
ASK_AT_ONCE = 16
SILENT = "no answer in time"


def cluster_of(name: str) -> ClusterSettings:
    """Return the settings of a run's cluster. Raises InvalidField."""
    clusters: dict[str, ClusterSettings] = {
        item.name: item for item in settings.CLUSTERS if item.apache is None
    }
    if not name and clusters:
        return next(iter(clusters.values()))
    if name not in clusters:
        raise InvalidField("cluster", f"{name} is not among the worker's: {', '.join(clusters)}")
    return clusters[name]


def stores_of(cluster: str) -> StoreUrls:
    """Return the URLs of the stores of a run's cluster. Raises InvalidField."""
    return cluster_of(cluster).stores


def context_of(run: JobRun) -> dict[str, str]:
    """Return the options of the stores that a run reads. Raises InvalidField."""
    context = store_options(stores_of(run.cluster))
    for read in run.also_reads:
        if read["cluster"] != run.cluster:
            context |= store_options(stores_of(read["cluster"]), OTHER)
    return context


def holders_for(run: JobRun) -> AskHolders:
    """Return the function by which the job of a run asks who holds messages of subscriptions, for the run's owner:
    brokers judge the right to each subscription. It blocks, at most about ``ASK_S``."""

    def ask(subscriptions: Sequence[tuple[str, str]]) -> list[dict[str, Any] | str]:
        answers: list[dict[str, Any] | str] = [SILENT] * len(subscriptions)
        try:
            asyncio.run(_ask(run, subscriptions, answers))
        except TimeoutError:
            pass  # those that did not answer are SILENT
        except FAILURES as error:
            return [str(error)] * len(subscriptions)
        return answers

    return ask


async def _ask(
    run: JobRun, subscriptions: Sequence[tuple[str, str]], answers: list[dict[str, Any] | str]
) -> None:
    """Replace each of ``answers`` by the broker's answer or the reason why there is none."""

    async def one(engine: Engine, number: int) -> None:
        topic, subscription = subscriptions[number]
        try:
            args = Holders(TopicName.parse(topic), subscription, 1)
            answer: dict[str, Any] = await engine.call(HOLDERS, args)
            answers[number] = answer
        except FAILURES as error:
            answers[number] = str(error) or SILENT

    async with asyncio.timeout(ASK_S):
        engine = (await open_engine(cluster_of(run.cluster)))._replace(principal=run.created_by)
        try:
            await each(range(len(subscriptions)), lambda number: one(engine, number), ASK_AT_ONCE)
        finally:
            engine.admin.close()
            await engine.store.close()

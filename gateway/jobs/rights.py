"""The right to an analysis: that on what it reads. Its results are for those who have it, and for no one else (A23)."""

from collections.abc import Callable
from typing import TypeVar

from engine.auth.actions import Action
from engine.auth.resource_names import CLUSTER, Resource, TenantName, WholeCluster
from engine.auth.rights import Right
from engine.base.names import NamespaceName, TopicName
from gateway.http.auth.access import Need
from gateway.jobs.models import JobRun, Schedule
from spark_jobs.analysis import AnalysisTarget

T = TypeVar("T")
K = TypeVar("K", TenantName, NamespaceName, TopicName, WholeCluster)
TargetKind = AnalysisTarget
Target = tuple[TargetKind, str]
"""Kind and name of what an analysis reads; the cluster has no name."""


def need_of(target: Target) -> Need:
    """Return the action that reading the messages of a target is, and its resource. Raises InvalidNameError."""
    kind, name = target
    if kind is TargetKind.TOPIC:
        return Action.CONSUME, TopicName.parse(name)
    if kind is TargetKind.NAMESPACE:
        return Action.CONSUME, NamespaceName.parse(name)
    if kind is TargetKind.TENANT:
        return Action.TENANT_ADMIN, TenantName.parse(name)
    return Action.SUPERUSER, CLUSTER


def needs_of_run(run: JobRun | Schedule) -> dict[str, list[Need]]:
    """Return the rights that seeing a run or schedule needs, by the names of clusters as they store them. Raises
    InvalidNameError."""
    needs = {run.cluster: [need_of((TargetKind(run.kind), run.target))]}
    for read in run.also_reads:
        topic = need_of((TargetKind.TOPIC, read["topic"]))
        needs.setdefault(read["cluster"], []).append(topic)
    return needs


def rights_to(target_of: Callable[[T], Target]) -> tuple[Right[T], ...]:
    """Return the rights of a call about an analysis of what ``target_of(call)`` returns, of which one is judged."""

    def resources(kind: type[K]) -> Callable[[T], tuple[K, ...]]:
        def of(call: T) -> tuple[K, ...]:
            resource: Resource = need_of(target_of(call))[1]
            return (resource,) if isinstance(resource, kind) else ()

        return of

    return (
        Right(Action.CONSUME, TopicName, resources(TopicName)),
        Right(Action.CONSUME, NamespaceName, resources(NamespaceName)),
        Right(Action.TENANT_ADMIN, TenantName, resources(TenantName)),
        Right(Action.SUPERUSER, WholeCluster, resources(WholeCluster)),
    )

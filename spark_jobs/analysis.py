"""Declaration of an analysis. Imports neither Spark nor Arrow, which the gateway does not need."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from engine.base.errors import UnusableField
from engine.metadata.apart.stores import StoreUrls

STORE_OPTIONS = ("metadata.url", "configuration.metadata.url", "bookkeeper.metadata.uri")
"""Options of the metadata stores; the last two only where they are apart."""
OTHER = "other."
"""Prefix of these options of a second cluster that an analysis reads."""
Job = Callable[..., dict[str, Any]]
"""``run(spark, parameters, context, *, progress, output_dir) -> result``, see docs/formats/analysis-result.md."""
AskHolders = Callable[[Sequence[tuple[str, str]]], Sequence[dict[str, Any] | str]]
"""Function that returns for topics and subscriptions what their brokers answer to the operation ``holders``, or the
reason why that is not known."""


def store_options(stores: StoreUrls, prefix: str = "") -> dict[str, str]:
    """Return the options that name ``stores``, each with ``prefix`` before its name."""
    values = (
        stores.metadata,
        stores.configuration,
        stores.service_uri if stores.bookkeeper else "",
    )
    return {
        prefix + name: value for name, value in zip(STORE_OPTIONS, values, strict=True) if value
    }


class AnalysisTarget(StrEnum):
    """Kind of object that an analysis reads.

    The parameter of this name has the object's name; a cluster has no parameter.
    """

    TOPIC = "topic"
    NAMESPACE = "namespace"
    TENANT = "tenant"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True)
class AlsoReads:
    """A further topic that an analysis reads: the names of the parameters of the topic and of its cluster.

    A parameter that is not set is read nothing for; without a cluster it is that of the run.
    """

    topic: str
    cluster: str = ""


@dataclass(frozen=True, slots=True)
class PackageNeed:
    """A package that an analysis needs where a parameter has a value, and the extra of ours that has it."""

    parameter: str
    value: str
    package: str
    extra: str


@dataclass(frozen=True, slots=True)
class Analysis:
    """An analysis that can be launched.

    ``question``: the question that it answers, in the words of operators.
    ``targets``: the kinds of objects that it can read, of which a run has one.
    ``parameters``: JSON Schema (draft 2020-12) of an object, with a property for each kind of target but the cluster.
    ``job``: name of the module whose function ``run`` is the analysis.
    ``also_reads``: further topics, to which the launcher needs the right too; all of one cluster.
    ``needs``: packages that only some values of parameters need.
    ``asks_holders``: the job takes ``holders``, an AskHolders, where brokers can be asked.
    """

    name: str
    title: str
    question: str
    targets: tuple[AnalysisTarget, ...]
    parameters: dict[str, Any]
    job: str
    also_reads: tuple[AlsoReads, ...] = ()
    needs: tuple[PackageNeed, ...] = ()
    asks_holders: bool = False

    def load(self) -> Job:
        """Import the job, which takes seconds, and return it."""
        job: Job = import_module(self.job).run
        return job

    def check_packages(self, parameters: Mapping[str, Any]) -> None:
        """Raise UnusableField when this machine has Spark, and not the package that a parameter's value needs.

        Without Spark, runs are of workers on other machines, whose packages are not known here.
        """
        for need in self.needs:
            if parameters.get(need.parameter) != need.value or find_spec(need.package):
                continue
            if find_spec("pyspark"):
                raise UnusableField(
                    f"parameters.{need.parameter}",
                    f"{need.value} needs the package {need.package}, which is not installed: it is in the extra"
                    f" {need.extra} of magnetar",
                )

    def target_of(self, parameters: Mapping[str, Any]) -> tuple[AnalysisTarget, str]:
        """Return kind and name of what ``parameters`` select; the cluster has no name.

        Raises UnusableField when they name several, or none where the cluster is no target.
        """
        kinds = [kind for kind in self.targets if kind is not AnalysisTarget.CLUSTER]
        named = [kind for kind in kinds if parameters.get(kind)]
        if len(named) > 1:
            raise UnusableField(
                f"parameters.{named[1]}",
                f"given beside {named[0]}; an analysis reads one of them",
            )
        if named:
            return named[0], str(parameters[named[0]])
        if AnalysisTarget.CLUSTER not in self.targets:
            raise UnusableField(f"parameters.{kinds[0]}", f"{' or '.join(kinds)} must be named")
        return AnalysisTarget.CLUSTER, ""

"""Declaration of an analysis. Imports neither Spark nor Arrow, which the gateway does not need."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from typing import Any

from engine.metadata.apart.stores import StoreUrls

STORE_OPTIONS = ("metadata.url", "configuration.metadata.url", "bookkeeper.metadata.uri")
"""Options of the metadata stores; the last two only where they are apart."""
Job = Callable[..., dict[str, Any]]
"""``run(spark, parameters, context, *, progress, output_dir) -> result``, see docs/formats/analysis-result.md."""


def store_options(stores: StoreUrls) -> dict[str, str]:
    """Return the options that name ``stores``."""
    values = (
        stores.metadata,
        stores.configuration,
        stores.service_uri if stores.bookkeeper else "",
    )
    return {name: value for name, value in zip(STORE_OPTIONS, values, strict=True) if value}


class AnalysisTarget(StrEnum):
    """Kind of object that an analysis reads.

    The parameter of this name has the object's name; a cluster has no parameter.
    """

    TOPIC = "topic"
    NAMESPACE = "namespace"
    TENANT = "tenant"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True)
class Analysis:
    """An analysis that can be launched.

    ``parameters_schema``: JSON Schema (draft 2020-12) of an object of string, integer or boolean properties.
    ``job``: name of the module whose function ``run`` is the analysis.
    """

    id: str
    title: str
    description: str
    target: AnalysisTarget
    parameters_schema: dict[str, Any]
    job: str

    def load(self) -> Job:
        """Import the job, which takes seconds, and return it."""
        job: Job = import_module(self.job).run
        return job

    def target_of(self, parameters: Mapping[str, Any]) -> str:
        """Return the name of what ``parameters`` select; empty for the cluster."""
        return "" if self.target is AnalysisTarget.CLUSTER else str(parameters[self.target])

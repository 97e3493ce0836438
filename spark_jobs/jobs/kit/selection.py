"""The selection of a run's parameters: options of the source, and what the result names."""

from collections.abc import Mapping
from typing import Any

from spark_jobs.analysis import Analysis, AnalysisTarget
from spark_jobs.pulsar_source.options import TOPIC_PREFIX, Options, parse


def options_of(
    analysis: Analysis, parameters: Mapping[str, Any], context: Mapping[str, str]
) -> Options:
    """Return the options that select what ``parameters`` name. Raises OptionError, UnusableField."""
    kind, name = analysis.target_of(parameters)
    whole = kind is AnalysisTarget.CLUSTER
    selected = {"topicsPattern": f"{TOPIC_PREFIX}.*"} if whole else {str(kind): name}
    last = str(parameters.get("last_entries", 0))
    stores = {name: url for name, url in context.items() if not name.startswith("other.")}
    return parse({**selected, "lastEntries": last, **stores})


def input_of(analysis: Analysis, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the target as a result names it."""
    kind, name = analysis.target_of(parameters)
    return {} if kind is AnalysisTarget.CLUSTER else {str(kind): name}

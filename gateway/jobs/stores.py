"""Stores of the clusters that a run reads, as options of its job."""

from django.conf import settings

from engine.base.errors import InvalidField
from engine.metadata.apart.stores import StoreUrls
from gateway.jobs.models import JobRun
from spark_jobs.analysis import OTHER, store_options


def stores_of(cluster: str) -> StoreUrls:
    """Return the URLs of the stores of a run's cluster. Raises InvalidField."""
    urls: dict[str, StoreUrls] = {
        item.name: item.stores for item in settings.CLUSTERS if item.apache is None
    }
    if not cluster and urls:
        return next(iter(urls.values()))
    if cluster not in urls:
        raise InvalidField("cluster", f"{cluster} is not among the worker's: {', '.join(urls)}")
    return urls[cluster]


def context_of(run: JobRun) -> dict[str, str]:
    """Return the options of the stores that a run reads. Raises InvalidField."""
    context = store_options(stores_of(run.cluster))
    for read in run.also_reads:
        if read["cluster"] != run.cluster:
            context |= store_options(stores_of(read["cluster"]), OTHER)
    return context

"""Work that other apps do in workers, on the clusters: an app names the module with it as ``background_work`` of its
``AppConfig``.

The module has ``perform(clusters, key)``, which does what can be done for a key and returns, and ``unfinished()``,
which returns the keys of what was begun and no process works on. The state is in the app's tables alone: a key that is
performed twice, or whose message is lost, is no harm. Without Celery the work is done in a thread of this process.
"""

import asyncio
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from django.db import close_old_connections

from gateway.clusters.configured import configured_clusters
from gateway.clusters.registry import Clusters
from gateway.http.installed import app_attributes
from gateway.jobs import services

log = logging.getLogger(__name__)
TASK = "jobs.background"


def modules() -> list[str]:
    """Return the names of the modules of all apps."""
    return app_attributes("background_work")


def request(module: str, key: str) -> None:
    """Have the work on a key done; returns at once."""
    if find_spec("celery") is None:
        threading.Thread(
            target=perform, args=(module, key), name=f"work-{key}", daemon=True
        ).start()
    else:
        services.in_background(lambda: services.send_work(TASK, (module, key)))


def request_unfinished() -> None:
    """Have all work done that no process works on."""
    for module in modules():
        for key in import_module(module).unfinished():
            request(module, key)


def perform(module: str, key: str) -> None:
    """Do the work on a key. Raises ValueError for a module that no app names."""
    if module not in modules():
        raise ValueError(f"no app has background work in {module!r}")
    try:
        with _clusters() as clusters:
            import_module(module).perform(clusters, key)
    except Exception:
        log.exception("work failed, it is tried again module=%s key=%s", module, key)
    finally:
        close_old_connections()


@contextmanager
def _clusters() -> Iterator[Clusters]:
    """Yield the clusters on a loop of their own, which runs in a thread meanwhile."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="work-loop", daemon=True)
    thread.start()
    clusters = configured_clusters(loop)
    try:
        yield clusters
    finally:
        for cluster in clusters:
            cluster.link.close()
        asyncio.run_coroutine_threadsafe(_end_tasks(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _end_tasks() -> None:
    others: set[asyncio.Task[Any]] = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)

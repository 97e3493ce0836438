"""Cost and speed of the console, with few topics that are published to, and with very many.

Run: python -m tests.bench.console [--topics 100000] [--changing 0.01] [--sockets 50] [--seconds 20]
[--only few|many|lists|viewers|people] [--lists topics subscriptions connections functions namespaces]
[--viewers 10] [--rounds 3]

Numbers of the many topics are from a row source (``tests.bench.console.row_source``) in place of a broker that has them
loaded. Ages are from the broker's count; all is on one machine, so clocks agree.
"""

import argparse
import asyncio
import os
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import pulsar

from tests.bench.console import lists, people, windows
from tests.bench.console.painting import Browser
from tests.bench.console.row_source import namespace_of, running_source
from tests.bench.contenders import kilobytes
from tests.bench.gateway.sides import JUDGED, Side, of_instance
from tests.support.access.callers import SUPERUSER, bearer, token
from tests.support.instance import Instance, running_instance

TOPIC = "persistent://public/default/shown"
QUERIES = {
    "list, first page": "sort=-backlog&limit=100",
    "another order, first time": "sort=-msg_rate_in&limit=100",
    "the same order again": "sort=-msg_rate_in&limit=100&offset=50000",
    "filter, first time": "sort=-backlog&q=topic%2007&limit=100",
    "the same filter again": "sort=-backlog&q=topic%2007&limit=100",
}

NAMESPACES, SEEN = 100, 3
"""Namespaces of the topics where viewers are compared, and those of them that ``VIEWER`` sees."""
SHARED, SHIFT, WINDOW = 40, 6, 50
"""Namespaces that each of several people sees, those by which the next one differs, and rows of a window."""
VIEWER = "viewer"
OPENINGS = 15
SORTED_BY = ("In/s", "Stored", "Topic", "Out/s", "Consumers", "Backlog")
TYPED = ("73142", "9041")
"""Texts typed into the filter: each keystroke leaves fewer topics."""


def show(title: str, figures: dict[str, float]) -> None:
    """Print one line."""
    values = ", ".join(f"{name} {value:,.3g}" for name, value in figures.items())
    print(f"[load {os.getloadavg()[0]:.0f}] {title}: {values}", flush=True)


@contextmanager
def published(url: str) -> Iterator[None]:
    """Publish fifty messages a second, with a subscription that falls behind."""
    client = pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    client.subscribe(TOPIC, "late").close()
    producer = client.create_producer(TOPIC)
    ended = threading.Event()

    def work() -> None:
        while not ended.wait(0.02):
            producer.send(b"x" * 100)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        client.close()


def few(instance: Instance, seconds: float) -> None:
    with published(instance.url):
        browser = Browser(instance.http)
        try:
            for title, route in {
                "topic list": "/c/standalone/topics",
                "topic": "/c/standalone/t/public/default/shown/overview",
                "overview": "/",
            }.items():
                show(f"push to paint, {title}", browser.pushes(route, seconds))
        finally:
            browser.close()


async def many(instance: Instance, options: argparse.Namespace) -> None:
    pids = of_instance(instance)["gateway"]
    zookeeper = f"127.0.0.1:{instance.ports['ZOOKEEPER']}"
    # The gateway begins to collect the numbers at the first request.
    await windows.asked(instance.http, pids, {"": "limit=1"})
    before = sum(kilobytes(pid, "Rss:") for pid in pids)
    async with running_source(zookeeper, options.topics, options.changing):
        waited = await windows.beside(instance.http, 15)
        grown = (sum(kilobytes(pid, "Rss:") for pid in pids) - before) / 1024
        show(
            f"{options.topics:,} topics",
            {"gateway grew by MB": grown, "longest other request ms": waited},
        )
        show("GET, ms", await windows.asked(instance.http, pids, QUERIES))
        for sockets, same in (
            (0, True),
            (1, True),
            (options.sockets, True),
            (options.sockets, False),
        ):
            figures = await windows.watched(
                instance.http, pids, sockets, options.seconds, same=same
            )
            show(f"{sockets} sockets{', one window' if same else ', a window each'}", figures)
        await asyncio.to_thread(_opened, instance.http)


def _opened(http: str) -> None:
    browser = Browser(http)
    try:
        show("list opened", browser.opening("/c/standalone/topics"))
        show("list opened again", browser.opening("/c/standalone/topics"))
        show("list sorted and filtered", browser.reacting("/c/standalone/topics", SORTED_BY, TYPED))
    finally:
        browser.close()


def judged(instance: Instance) -> Side:
    """Return the side of an instance whose callers need rights."""
    return Side(
        "judged",
        instance.http,
        instance.url,
        lambda: of_instance(instance),
        instance,
        identity=True,
    )


async def people_at_once(instance: Instance, options: argparse.Namespace) -> None:
    """Watch windows as people with different rights, and as one of them, by turns. Neighbours share most of what they
    see, and no two see the same."""
    side = judged(instance)
    for number in range(NAMESPACES):
        side.ask("PUT", f"/admin/v2/namespaces/{namespace_of(number)}")
    roles = [people.role_of(number) for number in range(options.viewers)]
    for first, role in enumerate(roles):
        for number in range(first * SHIFT, first * SHIFT + SHARED):
            path = f"/admin/v2/namespaces/{namespace_of(number % NAMESPACES)}/permissions/{role}"
            side.ask("POST", path, ["consume"])
    zookeeper = f"127.0.0.1:{instance.ports['ZOOKEEPER']}"
    side.ask("GET", "/api/v1/clusters/standalone/topics?limit=1")
    async with running_source(zookeeper, options.topics, options.changing, NAMESPACES):
        await asyncio.sleep(15)
        figures = await people.by_turns(
            instance.http,
            side.processes["gateway"],
            [token(role) for role in roles],
            options.rounds,
            sockets=options.sockets,
            seconds=options.seconds,
            rows=WINDOW,
        )
    of_one, of_many = figures.values()
    for name, values in figures.items():
        show(f"{options.topics:,} topics, {options.sockets} windows of {name}", values)
    show("ratio", {name: of_many[name] / value for name, value in of_one.items() if value})


async def viewers(instance: Instance, options: argparse.Namespace) -> None:
    """Open the list as a superuser, and as a role that sees three of the namespaces, in turn."""
    side = judged(instance)
    for number in range(SEEN):
        name = namespace_of(number)
        side.ask("PUT", f"/admin/v2/namespaces/{name}")
        side.ask("POST", f"/admin/v2/namespaces/{name}/permissions/{VIEWER}", ["consume"])
    zookeeper = f"127.0.0.1:{instance.ports['ZOOKEEPER']}"
    side.ask("GET", "/api/v1/clusters/standalone/topics?limit=1")
    async with running_source(zookeeper, options.topics, options.changing, NAMESPACES):
        await asyncio.sleep(15)
        for role in (SUPERUSER, VIEWER):
            figures = await windows.asked(
                instance.http, side.processes["gateway"], QUERIES, token(role)
            )
            show(f"GET by {role}, ms", figures)
        await asyncio.to_thread(_opened_by, instance.http, (SUPERUSER, VIEWER))


def _opened_by(http: str, roles: Sequence[str]) -> None:
    """Open the list in a browser of each role, several times; the least of each figure is the least disturbed."""
    for role in roles:
        browser = Browser(http, bearer(role))
        try:
            openings = [browser.opening("/c/standalone/topics") for _ in range(OPENINGS)]
            count = browser.page.locator("[role=grid]").get_attribute("aria-rowcount")
            show(f"list of {count} rows opened by {role}", openings[0])
            for title, choose in (("medians", median), ("least", min)):
                figures = {
                    name: choose([opening[name] for opening in openings]) for name in openings[0]
                }
                show(f"opened {OPENINGS} times by {role}, {title}", figures)
        finally:
            browser.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=100_000)
    parser.add_argument("--changing", type=float, default=0.01)
    parser.add_argument("--sockets", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--viewers", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lists", nargs="*", default=(), choices=[x.name for x in lists.LISTS])
    parser.add_argument("--only", choices=("few", "many", "lists", "viewers", "people"))
    options = parser.parse_args()
    if options.only in (None, "few", "many"):
        with tempfile.TemporaryDirectory() as made, running_instance(Path(made)) as instance:
            if options.only != "many":
                few(instance, options.seconds)
            if options.only != "few":
                asyncio.run(many(instance, options))
    if options.only in (None, "lists"):
        with tempfile.TemporaryDirectory() as made, running_instance(Path(made)) as instance:
            work = lists.all_lists(instance, options.topics, options.changing, show, options.lists)
            asyncio.run(work)
    for name, measure in (("viewers", viewers), ("people", people_at_once)):
        if options.only in (None, name):
            env = {f"MAGNETAR_{key.upper()}": value for key, value in JUDGED.items()}
            with (
                tempfile.TemporaryDirectory() as made,
                running_instance(Path(made), **env) as instance,
            ):
                asyncio.run(measure(instance, options))


if __name__ == "__main__":
    main()

"""The first steps of a newcomer, in a real browser on a real instance: publish, watch the topic, analyse, read the
result."""

import json
import re
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pulsar
import pytest
from playwright.sync_api import Page, expect

from tests.support.instance import Instance

TOPIC = "persistent://public/default/hello"
RUN_TIMEOUT_MS = 150_000
SCREENSHOTS = Path(__file__).parents[2] / "test-results"


@contextmanager
def traffic(url: str, topic: str, subscription: str = "my-sub") -> Iterator[pulsar.Client]:
    """Publish twenty messages a second with keys, on a topic with a subscription without consumers."""
    client = pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    client.subscribe(topic, subscription, pulsar.ConsumerType.Shared).close()
    producer = client.create_producer(topic, producer_name=f"p-{time.time_ns()}")
    stop = threading.Event()

    def work() -> None:
        number = 0
        while not stop.wait(0.05):
            producer.send(b"hello" * (number % 7 + 1), partition_key=f"k{number % 5}")
            number += 1

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield client
    finally:
        stop.set()
        thread.join(30)
        client.close()


def number_of(text: str) -> int:
    match = re.search(r"[\d,]+", text)
    assert match, text
    return int(match.group().replace(",", ""))


def test_the_readme_program_publishes_and_consumes(instance: Instance) -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    program = re.search(r"```python\n(.*?)```", readme, re.DOTALL)
    assert program is not None
    code = program.group(1).replace("pulsar://127.0.0.1:6650", instance.url)
    assert len(code.strip().splitlines()) <= 10
    exec(compile(code, "README.md", "exec"), {})


@pytest.mark.timeout(400)
def test_a_topics_backlog_grows_in_the_console_and_a_click_profiles_it(
    page: Page, instance: Instance
) -> None:
    with traffic(instance.url, TOPIC):
        page.goto("/")
        expect(page.get_by_role("heading", name="Overview", level=1)).to_be_visible()
        page.get_by_role("link", name="hello").first.click()
        expect(page.get_by_role("heading", name="hello", level=1)).to_be_visible()
        backlog = page.locator("dt,div,span", has_text=re.compile("^Backlog$")).first.locator("..")
        first = number_of(backlog.inner_text().split("Backlog", 1)[1])
        page.wait_for_function(
            "([before]) => { const t = document.body.innerText.match(/Backlog\\s+(?:[≈≥] )?([\\d,]+)/);"
            " return t && Number(t[1].replaceAll(',', '')) > before; }",
            arg=[first],
            timeout=15_000,
        )
        SCREENSHOTS.mkdir(exist_ok=True)
        page.screenshot(path=SCREENSHOTS / "topic.png")
    page.get_by_role("button", name="Analyse", exact=True).click()
    page.get_by_role("button", name="Choose Topic profile").click()
    expect(page.locator("input[name=topic]")).to_have_value(TOPIC)
    expect(page.locator(f"datalist option[value='{TOPIC}']")).to_be_attached()
    page.get_by_role("button", name="Start").click()
    page.wait_for_url(re.compile(r"/analyses/runs/[0-9a-f]{16}"))
    shown: list[float] = []
    deadline = time.monotonic() + RUN_TIMEOUT_MS / 1000
    while not page.get_by_text("succeeded", exact=True).first.is_visible():
        # Read in one step: the bar disappears as soon as the run has ended.
        shown += page.get_by_role("progressbar").evaluate_all(
            "bars => bars.slice(0, 1).map(bar => bar.ariaValueNow).filter(Boolean).map(Number)"
        )
        assert time.monotonic() < deadline, page.inner_text("main")
        page.wait_for_timeout(200)
    assert shown == sorted(shown)
    expect(page.get_by_role("heading", name="Rate over time")).to_be_visible()
    expect(page.get_by_role("heading", name="Sizes of messages")).to_be_visible()
    expect(page.get_by_role("heading", name="Top keys")).to_be_visible()
    page.screenshot(path=SCREENSHOTS / "run.png", full_page=True)
    run_id = page.url.rsplit("/", 1)[1]
    _, run = instance.rest("GET", f"/api/v1/runs/{run_id}")
    facts = {item["key"]: item["value"] for item in run["result"]["summary"]}
    assert facts["messages"] == facts["entries"] == run["result"]["input"]["entries"] > 0
    assert facts["keys"] == 5
    assert (
        sum(y for _, y in next(s for s in run["result"]["series"] if s["key"] == "sizes")["points"])
        == (facts["messages"])
    )
    with urllib.request.urlopen(instance.http + run["downloads"][0]["href"]) as reply:
        assert reply.read(4) == b"PAR1"
    page.reload()
    expect(page.get_by_role("heading", name="Rate over time")).to_be_visible()


@pytest.mark.timeout(300)
def test_a_run_survives_the_gateway_and_the_worker_and_can_be_cancelled(instance: Instance) -> None:
    topic = "persistent://public/default/long"
    client = pulsar.Client(instance.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    client.subscribe(topic, "keep").close()
    producer = client.create_producer(
        topic,
        block_if_queue_full=True,
        max_pending_messages=2000,
        batching_enabled=True,
        compression_type=pulsar.CompressionType.LZ4,
    )
    for number in range(20_000):
        producer.send_async(b"x" * 100, lambda result, _: None, partition_key=str(number % 50))
    producer.flush()
    client.close()
    body = {"analysis": "topic-profile", "parameters": {"topic": topic}}
    status, run = instance.rest("POST", "/api/v1/runs", body)
    assert status == 201
    path = f"/api/v1/runs/{run['id']}"
    wait_for(instance, path, lambda r: r["state"] != "queued", 60)
    instance.kill("gateway")
    instance.kill("worker")
    instance.wait_running("gateway")
    done = wait_for(instance, path, lambda r: r["state"] in ("succeeded", "failed"), 150)
    assert done["state"] == "succeeded", done["error"]
    assert done["result"]["input"]["messages"] == 20_000
    facts = {item["key"]: item["value"] for item in done["result"]["summary"]}
    assert facts["value_bytes"] == 20_000 * 100
    assert facts["keys"] == 50
    assert facts["batch_mean"] > 1
    assert facts["compression_ratio"] > 1

    _, second = instance.rest("POST", "/api/v1/runs", body)
    path = f"/api/v1/runs/{second['id']}"
    wait_for(instance, path, lambda r: r["state"] == "running" and r["stage"] != "starting", 60)
    requested_at = time.monotonic()
    status, _ = instance.rest("POST", path + "/cancel")
    assert status == 200
    ended = wait_for(instance, path, lambda r: r["state"] not in ("queued", "running"), 30)
    assert ended["state"] == "cancelled"
    assert time.monotonic() - requested_at < 10


def wait_for(instance: Instance, path: str, done, timeout_s: float):  # type: ignore[no-untyped-def]
    """Poll a run until ``done(run)``; its progress must not decrease meanwhile."""
    until = time.monotonic() + timeout_s
    best = (0, 0)
    while time.monotonic() < until:
        try:
            _, run = instance.rest("GET", path, timeout_s=5)
        except OSError:
            time.sleep(0.2)
            continue
        if run and "progress" in run:
            if done(run):
                return run
            seen = (run["attempt"], run["progress"]["done"])
            assert seen >= best or seen[0] > best[0]
            best = seen
        time.sleep(0.1)
    raise TimeoutError(f"{path}: {json.dumps(run)[:500]}\n{instance.logs(800)}")


def test_a_wrong_parameter_is_named(instance: Instance) -> None:
    for parameters, field in (
        ({}, "parameters.topic"),
        ({"topic": "nobody-made-this"}, "parameters.topic"),
        ({"topic": "non-persistent://public/default/hello"}, "parameters.topic"),
        ({"topic": "persistent://hello"}, "parameters.topic"),
        ({"topic": TOPIC, "top": 0}, "parameters.top"),
        ({"topic": TOPIC, "extra": 1}, "parameters"),
    ):
        body = {"analysis": "topic-profile", "parameters": parameters}
        status, answer = instance.rest("POST", "/api/v1/runs", body)
        assert (status, answer["field"]) == (422, field)
    status, answer = instance.rest("POST", "/api/v1/runs", {"analysis": "nope", "parameters": {}})
    assert (status, answer["field"]) == (422, "analysis")


def test_an_empty_topic_is_refused_and_a_short_name_completed(instance: Instance) -> None:
    client = pulsar.Client(instance.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    producer = client.create_producer("soon", producer_name="p")
    body = {"analysis": "topic-profile", "parameters": {"topic": "soon"}}
    status, answer = instance.rest("POST", "/api/v1/runs", body)
    assert (status, answer["field"]) == (422, "parameters.topic")
    assert "holds no messages" in answer["reason"]
    producer.send(b"first")
    client.close()
    status, run = instance.rest("POST", "/api/v1/runs", body)
    assert (status, run["parameters"]["topic"]) == (201, "persistent://public/default/soon")
    instance.rest("POST", f"/api/v1/runs/{run['id']}/cancel")

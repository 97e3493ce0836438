"""A function's life in the console, by keyboard alone, and the looks and languages of the pages of functions."""

import base64
from collections.abc import Iterator
from typing import Any

import pulsar
import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.axe import violations
from tests.e2e.german import choose_german, english
from tests.support.instance import Instance, healthy_instance
from tests.support.waiting import until_blocking

FUNCTIONS = "/c/standalone/functions"
TABS_MAX = 120
CODE = '''class Greet:
    """Greet each message."""

    def process(self, input, context):
        context.get_logger().info("got %s", input)
        return "hello " + input
'''
SPOKEN = CODE.replace('"hello " + input', '"good day " + input')
DEPLOYED: dict[str, tuple[str, dict[str, Any]]] = {
    "shouting": (
        "function",
        {"className": "greet.Greet", "inputs": ["shouting-in"], "output": "shouting-out"},
    ),
    "failing": ("function", {"className": "fails.Fails", "inputs": ["failing-in"]}),
    "made": (
        "source",
        {
            "archive": "builtin://generator",
            "topicName": "made-out",
            "configs": {"rate": 1},
        },
    ),
}
FAILS = """class Fails:
    def process(self, input, context):
        raise ValueError("no " + input)
"""


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    folder = tmp_path_factory.mktemp("functions")
    starts = (r"cannot join the cluster yet: No broker is available",)
    with healthy_instance(folder, starts, MAGNETAR_FUNCTIONS_WORKER_ENABLED="true") as made:
        until_blocking(
            lambda: made.rest("GET", "/admin/v3/functions/public/default")[0] == 200,
            "a worker",
            bound_s=120,
        )
        yield made


@pytest.fixture(scope="module")
def client(instance: Instance) -> Iterator[pulsar.Client]:
    connected = pulsar.Client(instance.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    yield connected
    connected.close()


def publish(client: pulsar.Client, topic: str, *values: str) -> None:
    producer = client.create_producer(topic)
    for value in values:
        producer.send(value.encode())
    producer.close()


class Keyboard:
    """A person with a keyboard and no pointer."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def to(self, target: Locator) -> None:
        """Press Tab until the target has the focus."""
        expect(target).to_be_visible()
        for _ in range(TABS_MAX):
            if target.evaluate("element => element === document.activeElement"):
                return
            self.page.keyboard.press("Tab")
        raise AssertionError(f"{TABS_MAX} presses of Tab do not lead to {target}")

    def press(self, name: str, within: Locator | None = None) -> None:
        """Go to a button and press it."""
        self.to((within or self.page.locator("body")).get_by_role("button", name=name, exact=True))
        self.page.keyboard.press("Enter")

    def follow(self, name: str) -> None:
        """Go to a link of the page and follow it."""
        self.to(self.page.locator("main").get_by_role("link", name=name, exact=True).first)
        self.page.keyboard.press("Enter")

    def write(self, label: str, text: str) -> None:
        """Go to a field and replace what it has."""
        self.to(self.page.get_by_role("textbox", name=label, exact=True))
        self.page.keyboard.press("Control+a")
        self.page.keyboard.insert_text(text)

    def confirm(self, button: str, receipt: str) -> None:
        """Press the button of the open dialog, read its receipt and close it."""
        dialog = self.page.get_by_role("dialog")
        expect(dialog.get_by_role("button", name=button, exact=True)).to_be_enabled()
        self.press(button, dialog)
        self.read(receipt)

    def read(self, receipt: str) -> None:
        """Read the receipt of the open dialog, and close it."""
        dialog = self.page.get_by_role("dialog")
        expect(dialog.get_by_role("status")).to_contain_text(receipt)
        self.to(dialog.get_by_role("button", name="Close").last)
        self.page.keyboard.press("Enter")
        expect(dialog).to_have_count(0)


@pytest.mark.timeout(300)
def test_a_function_is_written_tried_deployed_updated_restarted_and_deleted_by_keyboard(
    page: Page, client: pulsar.Client
) -> None:
    publish(client, "greet-in", "Ada")
    keyboard = Keyboard(page)
    page.goto(FUNCTIONS)
    keyboard.follow("Deploy …")
    keyboard.write("Name", "greet")
    keyboard.write("Class", "greet.Greet")
    keyboard.write("Topics to read", "greet-in")
    keyboard.write("Topic to write", "greet-out")
    keyboard.write("Code", CODE)
    keyboard.press("Try on the last 10 messages")
    trial = page.get_by_role("region", name="Trial", exact=True)
    expect(trial).to_contain_text("hello Ada ← Ada")

    keyboard.press("Preview …")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("It is new. The gateway has checked its config:")
    keyboard.confirm("Create", "public/default/greet was created.")
    expect(page.get_by_role("heading", name="greet", level=1)).to_be_visible()
    expect(page.get_by_text("1 of 1 run")).to_be_visible()

    # Results, and the log.
    results = client.subscribe(
        "greet-out", "results", initial_position=pulsar.InitialPosition.Earliest
    )
    publish(client, "greet-in", "Grace")
    assert results.receive(timeout_millis=60_000).data() == b"hello Grace"
    keyboard.press("Show", page.get_by_role("region", name="Logs"))
    expect(page.get_by_role("region", name="Log of instance 0")).to_contain_text("got Grace")
    done = page.get_by_role("table", name="Instances").get_by_role("row").nth(1)
    expect(done).to_contain_text("running")

    # The deployed code is tried as it is, then edited and tried again before the update.
    keyboard.press("Try on the last 10 messages")
    expect(trial).to_contain_text("hello Grace ← Grace")
    keyboard.press("Update …")
    code = page.get_by_role("textbox", name="Code", exact=True)
    expect(code).to_have_value(CODE)
    keyboard.write("Code", SPOKEN)
    keyboard.press("Try on the last 10 messages")
    expect(trial).to_contain_text("good day Grace ← Grace")
    keyboard.press("Preview …")
    difference = dialog.get_by_role("region", name="Code before and after")
    expect(difference).to_contain_text('return "hello " + input')
    expect(difference).to_contain_text('+         return "good day " + input')
    keyboard.confirm("Update", "public/default/greet was updated.")
    expect(page.get_by_text("version 1,")).to_be_visible()
    publish(client, "greet-in", "Edsger")
    assert results.receive(timeout_millis=60_000).data() == b"good day Edsger"

    keyboard.press("Restart …")
    keyboard.confirm("Restart", "public/default/greet is restarted.")
    keyboard.press("Stop …")
    keyboard.confirm("Stop", "public/default/greet is stopped.")
    expect(page.get_by_text("0 of 1 run")).to_be_visible()
    keyboard.press("Start …")
    keyboard.confirm("Start", "public/default/greet is started.")
    publish(client, "greet-in", "Barbara")
    assert results.receive(timeout_millis=60_000).data() == b"good day Barbara"

    # The topology has a link for each of its parts, and the same as a table.
    page.goto(FUNCTIONS)
    topology = page.get_by_role("region", name="Topology", exact=True)
    drawn = topology.get_by_role("link", name="function greet, running")
    expect(topology.get_by_role("table")).to_contain_text("greet-out")
    keyboard.to(drawn)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="greet", level=1)).to_be_visible()
    keyboard.press("Delete …")
    expect(dialog).to_contain_text("Its uploaded code and its state are deleted.")
    keyboard.press("Delete", dialog)
    keyboard.read("public/default/greet was deleted.")
    expect(page.get_by_text("Nothing is deployed")).to_be_visible()


@pytest.fixture(scope="module")
def _deployed(instance: Instance, client: pulsar.Client) -> None:
    """A function that works, one that raises, and a source."""
    for name, (component, config) in DEPLOYED.items():
        path = f"/api/v1/clusters/standalone/functions/{component}/public/default/{name}/deploy"
        body: dict[str, Any] = {"config": config}
        if component == "function":
            code = FAILS if name == "failing" else CODE
            file_name = f"{config['className'].partition('.')[0]}.py"
            body |= {"code": base64.b64encode(code.encode()).decode(), "file_name": file_name}
        status, preview = instance.rest("POST", path, {"preview": True, **body})
        assert status == 200, preview
        status, answer = instance.rest("POST", path, {"preview": False, "token": preview["token"]})
        assert status == 200, answer
    publish(client, "shouting-in", "a")

    def are_running() -> bool:
        rows = instance.rest("GET", "/api/v1/clusters/standalone/functions")[1]["rows"]
        return len(rows) == len(DEPLOYED) and all(row["running"] for row in rows)

    until_blocking(are_running, "all instances", bound_s=120)
    publish(client, "failing-in", "way")
    failing = "/api/v1/clusters/standalone/functions/function/public/default/failing"
    until_blocking(
        lambda: bool(instance.rest("GET", failing)[1]["instances"][0]["exceptions"]),
        "an exception",
        bound_s=120,
    )


PAGES = {
    "list": FUNCTIONS,
    "function": f"{FUNCTIONS}/function/public/default/shouting",
    "function that fails": f"{FUNCTIONS}/function/public/default/failing",
    "source": f"{FUNCTIONS}/source/public/default/made",
    "new function": f"{FUNCTIONS}/new",
    "new sink": f"{FUNCTIONS}/new?component=sink&connector=postgres",
    "update of a function": f"{FUNCTIONS}/function/public/default/shouting/update",
    "update of a source": f"{FUNCTIONS}/source/public/default/made/update",
    "unknown function": f"{FUNCTIONS}/function/public/default/never-deployed",
}
ACTIONS = ("Restart …", "Stop …", "Delete …")


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("_deployed")
def test_pages_and_dialogs_of_functions_have_no_axe_violations_and_fit_a_phone(
    page: Page, axe_source: str
) -> None:
    problems = []
    for name, path in PAGES.items():
        page.emulate_media(color_scheme="light")
        page.set_viewport_size({"width": 1440, "height": 900})
        page.goto(path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        expect(page.get_by_role("status").filter(has_text="Loading")).to_have_count(0)
        page.evaluate(axe_source)
        if name == "function":
            page.get_by_role("button", name="Try on the last 10 messages").click()
            expect(page.get_by_text("hello a ← a")).to_be_visible()
            page.get_by_role("button", name="Show", exact=True).click()
            expect(page.get_by_role("region", name="Log of instance 0")).to_be_visible()
        problems += violations(page, name, "html")
        if name == "function":
            for button in ACTIONS:
                page.get_by_role("button", name=button, exact=True).first.click()
                expect(page.get_by_role("dialog")).to_be_visible()
                problems += violations(page, button, "[role=dialog]")
                page.keyboard.press("Escape")
                expect(page.get_by_role("dialog")).to_have_count(0)
        if name == "update of a function":
            page.get_by_role("textbox", name="Code", exact=True).fill(SPOKEN)
            page.get_by_role("button", name="Preview …").click()
            expect(page.get_by_role("region", name="Code before and after")).to_be_visible()
            problems += violations(page, "preview of an update", "[role=dialog]")
    assert not problems, "\n".join(problems)


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("_deployed")
def test_pages_and_dialogs_of_functions_are_german_once_it_is_chosen(page: Page) -> None:
    page.goto(FUNCTIONS)
    choose_german(page)
    for path in PAGES.values():
        page.goto(path)
        assert english(page) == [], path
    page.goto(PAGES["function"])
    page.get_by_role("button", name="An den letzten 10 Nachrichten probieren").click()
    expect(page.get_by_text("hello a ← a")).to_be_visible()
    page.get_by_role("button", name="Zeigen", exact=True).click()
    expect(page.get_by_role("region", name="Log von Instanz 0")).to_be_visible()
    for button in ("Neu starten …", "Anhalten …", "Löschen …"):
        page.get_by_role("button", name=button, exact=True).first.click()
        expect(page.get_by_role("dialog").locator("[data-preview] p").first).to_be_visible()
        assert english(page) == [], button
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)

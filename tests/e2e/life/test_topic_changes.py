"""A topic created, changed and deleted in a browser: a change does what its preview showed, and has its command."""

import subprocess

import pulsar
import pytest
from playwright.sync_api import Page, expect

from tests.support.life.cast import CLUSTER
from tests.support.life.life import Life

ADMIN = "/admin/v2/persistent/archive/2025-q4"
TOPICS = f"/c/{CLUSTER}/topics?tenant=archive&namespace=2025-q4"


def publish(life: Life, topic: str, count: int) -> None:
    client = pulsar.Client(life.instance.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    producer = client.create_producer(f"persistent://archive/2025-q4/{topic}")
    for _ in range(count):
        producer.send(b"v")
    client.close()


@pytest.fixture
def here(page: Page, life: Life) -> Page:
    """The list of topics on the instance with traffic."""
    page.goto(life.instance.http + TOPICS)
    return page


@pytest.mark.timeout(300)
def test_a_topic_is_created_given_properties_and_deleted_as_previewed(
    here: Page, life: Life
) -> None:
    page = here
    page.get_by_role("button", name="New topic…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Namespace")).to_have_value("archive/2025-q4")
    dialog.get_by_role("button", name="Create topic").click()
    expect(dialog.get_by_text("Give a name")).to_be_visible()
    dialog.get_by_label("Name", exact=True).fill("made here")
    dialog.get_by_label("Properties").fill("team=ops")
    dialog.get_by_role("button", name="Create topic").click()
    expect(page.get_by_role("heading", name="made here", level=1)).to_be_visible()
    expect(page.get_by_role("region", name="Properties")).to_contain_text("ops")

    page.get_by_role("button", name="Change properties…").click()
    dialog.get_by_role("textbox", name="Properties").fill("tier=gold")
    expect(dialog.locator("[data-preview]")).to_contain_text("team is removed")
    dialog.get_by_role("button", name="Save").click()
    expect(page.get_by_role("region", name="Properties")).to_contain_text("gold")
    path = f"{ADMIN}/made%20here"
    assert life.instance.rest("GET", f"{path}/properties") == (200, {"tier": "gold"})

    earliest = {"ledgerId": -1, "entryId": -1}
    life.instance.rest("PUT", f"{path}/subscription/reader", earliest)
    publish(life, "made here", 3)
    page.get_by_role("button", name="Delete…", exact=True).click()
    expect(dialog).to_contain_text("3 messages that reader has not read are deleted with it")
    publish(life, "made here", 1)
    dialog.get_by_role("button", name="Delete with 3 messages unread").click()
    expect(dialog.get_by_role("alert")).to_contain_text("Messages were published since the preview")
    dialog.get_by_role("button", name="Preview again").click()
    dialog.get_by_role("button", name="Delete with 4 messages unread").click()
    expect(dialog.get_by_role("status")).to_contain_text("The topic was deleted")
    assert life.instance.rest("GET", f"{path}/stats")[0] == 404
    dialog.get_by_role("button", name="Close").last.click()
    expect(page.get_by_role("heading", name="Topics", level=1)).to_be_visible()


@pytest.mark.timeout(300)
def test_partitions_are_added_and_a_topic_is_unloaded_and_terminated(
    here: Page, life: Life
) -> None:
    page = here
    life.instance.rest("PUT", f"{ADMIN}/grows/partitions", 2)
    page.goto(f"{life.instance.http}/c/{CLUSTER}/t/archive/2025-q4/grows/manage")
    dialog = page.get_by_role("dialog")
    expect(page.get_by_role("button", name="Terminate…")).to_be_disabled()
    page.get_by_role("button", name="More partitions…").click()
    dialog.get_by_label("Partitions").fill("2")
    expect(dialog).to_contain_text("A whole number from 3 to 10,000")
    dialog.get_by_label("Partitions").fill("5")
    expect(dialog).to_contain_text("From 2 partitions to 5 partitions")
    dialog.get_by_role("button", name="Raise to 5 partitions").click()
    expect(dialog.get_by_role("status")).to_contain_text("The topic has 5 partitions now")
    assert life.instance.rest("GET", f"{ADMIN}/grows/partitions")[1]["partitions"] == 5
    dialog.get_by_role("button", name="Close").last.click()
    page.get_by_role("button", name="Unload…").click()
    dialog.get_by_role("button", name="Unload topic").click()
    expect(dialog.get_by_role("status")).to_contain_text("closed on its broker")

    life.instance.rest("PUT", f"{ADMIN}/sealed")
    page.goto(f"{life.instance.http}/c/{CLUSTER}/t/archive/2025-q4/sealed/manage")
    page.get_by_role("button", name="Terminate…").click()
    dialog.get_by_role("button", name="Terminate topic").click()
    expect(dialog.get_by_role("status")).to_contain_text("it holds no message")
    dialog.get_by_role("button", name="Close").last.click()
    page.get_by_role("button", name="Terminate…").click()
    expect(dialog).to_contain_text("It is terminated already")
    expect(dialog.get_by_role("button", name="Terminated already")).to_be_disabled()


@pytest.mark.timeout(300)
def test_the_curl_of_a_dialog_does_what_its_button_does(here: Page, life: Life) -> None:
    page = here
    page.get_by_role("button", name="New topic…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name", exact=True).fill("it's 100%")
    dialog.get_by_label("Properties").fill("team=ops")
    dialog.get_by_text("As a command").click()
    create_command = dialog.get_by_role("region", name="curl command").inner_text()
    subprocess.run(["/bin/sh", "-c", create_command], check=True, capture_output=True, timeout=60)
    path = f"{ADMIN}/it%27s%20100%25"
    assert life.instance.rest("GET", f"{path}/properties") == (200, {"team": "ops"})
    page.goto(f"{life.instance.http}/c/{CLUSTER}/t/archive/2025-q4/it's%20100%25/manage")
    page.get_by_role("button", name="Delete…", exact=True).click()
    dialog.get_by_text("As a command").click()
    delete_command = dialog.get_by_role("region", name="curl command").inner_text()
    subprocess.run(["/bin/sh", "-c", delete_command], check=True, capture_output=True, timeout=60)
    assert life.instance.rest("GET", f"{path}/stats")[0] == 404

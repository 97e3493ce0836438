"""The support bundle from the console's page of settings: a file of the browser, of the instance that runs."""

import zipfile

import pytest
from playwright.sync_api import Page, expect

from tests.support.instance import Instance

COLLECTED_MS = 150_000


@pytest.mark.timeout(300)
def test_a_bundle_is_downloaded_and_has_names_only_as_hashes(
    page: Page, instance: Instance
) -> None:
    instance.rest("PUT", "/admin/v2/persistent/public/default/bundled-topic")
    page.goto("/c/standalone/settings")
    panel = page.get_by_role("region", name="Support bundle")
    panel.get_by_role("checkbox").check()
    with page.expect_download(timeout=COLLECTED_MS) as download:
        panel.get_by_role("button", name="Collect and download").click()
    expect(panel.get_by_role("status")).to_have_text("Downloaded as magnetar-support.zip.")
    assert download.value.suggested_filename == "magnetar-support.zip"
    bundle = zipfile.ZipFile(download.value.path())
    assert {"about.json", "settings.json", "metrics/broker-1.txt"} <= set(bundle.namelist())
    texts = [bundle.read(name) for name in bundle.namelist()]
    assert [text for text in texts if b"bundled-topic" in text] == []

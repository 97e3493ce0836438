"""The documentation at ``/docs/``: files of a build, as any caller receives them."""

import os
from pathlib import Path
from typing import Any

import pytest

from gateway.http.security import CONTENT_SECURITY_POLICY
from tests.support.admin.gateway_client import Gateway


@pytest.fixture
def site(tmp_path: Path, settings: Any) -> Path:
    """A folder that the gateway serves as the documentation."""
    settings.DOCUMENTATION_DIR = tmp_path / "html"
    (tmp_path / "html" / "start").mkdir(parents=True)
    return tmp_path / "html"


def write(site: Path, text: str) -> None:
    (site / "index.html").write_text(text)
    (site / "start" / "install.html").write_text(text)
    (site / "site.css").write_text("body {}")
    (site / "searchindex.js").write_text(text)


def test_pages_and_files_are_served_with_the_headers_of_the_console(
    call: Gateway, site: Path
) -> None:
    write(site, "<p>text</p>")
    for path, media_type in (
        ("/docs/", 'text/html; charset="utf-8"'),
        ("/docs/start/install.html", 'text/html; charset="utf-8"'),
        ("/docs/site.css", 'text/css; charset="utf-8"'),
    ):
        answer = call("GET", path)
        assert (answer.status, answer.headers["content-type"]) == (200, media_type)
        assert answer.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
        assert "max-age=0" in answer.headers["cache-control"]
    assert call("HEAD", "/docs/").status == 200
    assert call("GET", "/docs").headers["location"] == "docs/"
    assert call("POST", "/docs/").status == 405


@pytest.mark.parametrize("path", ["none.html", "../secret", "%2e%2e/secret", "start/../../secret"])
def test_a_page_that_does_not_exist_and_a_file_outside_are_not_served(
    call: Gateway, site: Path, path: str
) -> None:
    write(site, "<p>text</p>")
    (site.parent / "secret").write_text("secret")
    answer = call("GET", f"/docs/{path}")
    assert answer.status == 404
    assert b"There is no such page" in answer.body


def test_the_notes_of_a_build_are_not_served(call: Gateway, site: Path) -> None:
    write(site, "<p>text</p>")
    (site / ".doctrees").mkdir()
    for name in (".buildinfo", ".built", ".doctrees/index.doctree"):
        (site / name).write_text("a path of the machine")
        assert call("GET", f"/docs/{name}").status == 404


def test_without_a_build_the_page_names_the_command(call: Gateway, site: Path) -> None:
    for path in ("/docs", "/docs/", "/docs/start/install.html"):
        answer = call("GET", path)
        assert answer.status == 503
        assert b"make setup" in answer.body


def test_a_new_build_is_served_at_once(call: Gateway, site: Path) -> None:
    write(site, "first")
    assert call("GET", "/docs/").body == b"first"
    write(site, "the second")
    os.utime(site / "searchindex.js", ns=(1, 1))
    answer = call("GET", "/docs/")
    assert (answer.body, answer.headers["content-length"]) == (b"the second", "10")

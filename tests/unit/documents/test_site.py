"""The documentation site: links inside of it lead somewhere, and its pages load nothing from elsewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
INDEX = "# First\n\n```{{toctree}}\n:glob:\n\n*\n```\n\n{}\n"


def build(folder: Path, text: str) -> tuple[str, str]:
    """Build a site of two pages, the first of which has ``text``; return that page, and what was reported."""
    source = folder / "docs"
    source.mkdir()
    (source / "index.md").write_text(INDEX.format(text))
    (source / "second.md").write_text("# Second\n\n## A part of it\n")
    (folder / "code.py").touch()
    (folder / "SECOND.md").touch()
    (folder / "OTHER.md").touch()
    command = [sys.executable, "-m", "sphinx", "-q", "--no-color", "-W", "--keep-going", "-c", DOCS]
    built = subprocess.run(
        [*command, source, folder / "site"], capture_output=True, text=True, timeout=60
    )
    assert (built.returncode == 0) == (built.stderr == ""), built.stderr
    return (folder / "site" / "index.html").read_text(), built.stderr


def test_dead_links_and_foreign_files_fail_the_build(tmp_path: Path) -> None:
    wrong = {
        "[A](third.md)": "third.md",
        "[A](second.md#another-part)": "another-part",
        "[A](#nowhere)": "nowhere",
        "[A](../absent.py)": "absent.py",
        "![A](picture.png)": "picture.png",
        "![A](https://host.example/b.png)": "img loads https://host.example/b.png",
        "<script>start()</script>": "index.html: an inline script\n",
        '<a onclick="start()">A</a>': "an inline script, onclick",
    }
    _, reports = build(tmp_path, "\n\n".join(wrong))
    assert [report for report in wrong.values() if report not in reports] == []


def test_links_that_lead_somewhere_are_kept_and_links_to_code_become_text(tmp_path: Path) -> None:
    links = "[A](second.md#a-part-of-it) [B](../code.py) [C](https://host.example/) [D](#first)"
    links += " [E](../SECOND.md) [F](../OTHER.md)"
    page, reports = build(tmp_path, links)
    assert reports == ""
    assert 'href="second.html#a-part-of-it"' in page
    assert 'href="https://host.example/"' in page
    assert re.search(r'href="second.html"><span[^>]*>E</span>', page)
    assert not re.search(r"code\.py|OTHER", page)
    assert not (tmp_path / "site" / "_downloads").exists()


LINK = re.compile(r"\]\((?!\w+:|#)([^)#]+)")
"""A relative link, without its anchor."""


@pytest.mark.parametrize("path", sorted(ROOT.glob("*.md")), ids=lambda path: path.name)
def test_links_of_the_pages_beside_the_site_lead_somewhere(path: Path) -> None:
    assert [link for link in LINK.findall(path.read_text()) if not (ROOT / link).exists()] == []


def test_the_readme_is_read_in_five_minutes() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 150
    assert len(text.encode()) <= 7 << 10

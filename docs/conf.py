"""Sphinx's settings of the documentation site: ``make docs`` builds ``docs/_build/html``.

The pages are plain Markdown, which GitHub and an editor show as well. The site needs no network: its files refer to no
other host. It has no inline script, so it works under the gateway's Content-Security-Policy.
"""

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util import logging

DOCS = Path(__file__).resolve().parent
VERSION = re.compile(r'^__version__ = "(.+)"$', re.MULTILINE)
FOLDER_PAGES = ("index.md", "README.md")
"""Pages to which a link to their folder leads."""
BEFORE_FILES_ARE_COPIED = 100
"""Sphinx's handler of the same event, of priority 500, copies linked files into the site."""
LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
"""Elements for which a browser loads another file, with the attribute that names it."""
LINKS_ONLY = {"next", "prev", "search", "index", "author", "copyright", "canonical"}
"""Relations of ``link`` that load nothing."""

project = "Magnetar"
author = "the Magnetar contributors"
project_copyright = f"{author}, Apache-2.0"
[version] = VERSION.findall((DOCS.parent / "magnetar" / "__init__.py").read_text())
release = version

extensions = ["myst_parser"]
exclude_patterns = ["_build", "_static", "_templates"]
myst_heading_anchors = 5
templates_path = ["_templates"]

html_theme = "furo"
html_title = f"Magnetar {version}"
html_favicon = html_logo = "../frontend/public/mark.svg"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_use_index = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#3b3fb6", "color-brand-content": "#3b3fb6"},
    "dark_css_variables": {"color-brand-primary": "#a9adff", "color-brand-content": "#a9adff"},
}
pygments_style = "default"
pygments_dark_style = "github-dark"

log = logging.getLogger(__name__)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("doctree-read", localize_links, priority=BEFORE_FILES_ARE_COPIED)
    app.connect("build-finished", check_site)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def localize_links(app: Sphinx, page: nodes.document) -> None:
    """Turn links to files outside of the documentation into text, and links to folders into links to their pages.

    A file outside that has a page of its name, such as the changelog, is replaced by that page. Links to files that do
    not exist are left to MyST, which reports them.
    """
    folder = Path(app.env.doc2path(app.env.docname)).parent
    links = [*page.findall(addnodes.download_reference), *page.findall(addnodes.pending_xref)]
    for link in links:
        target = link["reftarget"].partition("#")[0]
        if link.get("refdomain") == "doc":
            # The name of a page from the root of the documentation, also of one outside, without its suffix.
            path = (app.srcdir / f"{target}.md").resolve()
        else:
            path = (folder / target).resolve()
        if not path.is_relative_to(app.srcdir) and path.exists():
            own = app.srcdir / f"{path.stem.lower()}.md"
            if own.is_file():
                _lead_to(link, own, app)
            else:
                link.replace_self(link.children)
        elif path.is_dir():
            for name in FOLDER_PAGES:
                if (path / name).is_file():
                    _lead_to(link, path / name, app)


def _lead_to(link: nodes.Element, page: Path, app: Sphinx) -> None:
    """Replace a link by one to a page of the documentation."""
    attributes = dict(link.attributes, refdomain="doc", reftarget=app.env.path2doc(page))
    link.replace_self(
        addnodes.pending_xref("", *link.children, **{**attributes, "reftargetid": None})
    )


def check_site(app: Sphinx, error: Exception | None) -> None:
    """Report inline scripts, and files of other hosts that a page loads, as warnings: they fail the build."""
    if error is None and app.builder.format == "html":
        for path in sorted(Path(app.outdir).rglob("*.html")):
            for finding in findings(path.read_text()):
                log.warning("%s: %s", path.relative_to(app.outdir), finding)


def findings(html: str) -> list[str]:
    """Return what a strict Content-Security-Policy would not let a page do."""
    checker = _Checker()
    checker.feed(html)
    return checker.findings


class _Checker(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.findings: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag == "script" and "src" not in values:
            self.findings.append("an inline script")
        self.findings += [f"an inline script, {name}" for name in values if name.startswith("on")]
        loaded = values.get(LOADS.get(tag, ""), "")
        if ("//" in loaded.partition("?")[0]) and values.get("rel") not in LINKS_ONLY:
            self.findings.append(f"{tag} loads {loaded}")

"""Metadata of the package that depend on the project's address: the README's links, and the list of addresses.

The README has relative links, which a code host resolves and a package index does not. They become links to the address
that pyproject.toml gives, or text while there is none.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?!\w+:)(?P<target>[^)]+)\)")
"""A link or image whose target is relative: a path, or an anchor of the same page."""
WITHOUT_ADDRESS = (
    "> The project has no public address yet. This text names pages of the documentation, which is in the package:"
    " a running instance serves it at <http://127.0.0.1:8080/docs/>.\n"
)


class AddressHook(MetadataHookInterface):
    """The fields ``readme`` and ``urls`` of the package."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add both fields. Raises ValueError."""
        address = self.config["address"]
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": readme(text, address, metadata["version"]),
        }
        metadata["urls"] = urls(address)


def readme(text: str, address: str, version: str) -> str:
    """Return the README for a page outside of the repository."""
    if not address:
        plain = LINK.sub(lambda link: "" if link["image"] else link["text"], text)
        title, _, rest = plain.partition("\n\n")
        return f"{title}\n\n{WITHOUT_ADDRESS}\n{rest}"

    def absolute(link: re.Match[str]) -> str:
        kind = "raw" if link["image"] else "blob"
        target = f"README.md{link['target']}" if link["target"][0] == "#" else link["target"]
        return f"{link['image']}[{link['text']}]({address}/{kind}/v{version}/{target})"

    return LINK.sub(absolute, text)


def urls(address: str) -> dict[str, str]:
    """Return the addresses that a package index lists; none without an address. Raises ValueError."""
    if not address:
        return {}
    if not re.fullmatch(r"https://[\w.-]+/[\w./-]*\w", address):
        raise ValueError(
            f"address is {address!r}, not that of a repository: https://HOST/OWNER/NAME"
        )
    return {
        "Homepage": address,
        "Documentation": f"{address}/blob/HEAD/docs/index.md",
        "Changelog": f"{address}/blob/HEAD/CHANGELOG.md",
        "Issues": f"{address}/issues",
    }

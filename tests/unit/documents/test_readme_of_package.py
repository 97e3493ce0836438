"""The README on a package index, where relative links lead nowhere: links to the project's address, or text."""

import re
import tomllib
from pathlib import Path

import pytest

from hatch_build import LINK, readme, urls

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text()
ADDRESS = "https://host.example/owner/magnetar"


def configured() -> str:
    """Return the address that pyproject.toml gives."""
    hooks = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["metadata"]
    address: str = hooks["hooks"]["custom"]["address"]
    return address


def test_without_an_address_links_are_text_and_the_page_says_so() -> None:
    text = readme(README, "", "0.1.0")
    assert LINK.findall(text) == []
    assert "The project has no public address yet." in text.split("\n\n")[1]
    assert "[" not in re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    assert urls("") == {}


def test_with_an_address_each_link_leads_to_the_file_of_the_release() -> None:
    text = readme(README, ADDRESS, "0.1.0")
    assert LINK.findall(text) == []
    targets = [link["target"] for link in LINK.finditer(README)]
    for kind, path in re.findall(rf"\]\({ADDRESS}/(blob|raw)/v0\.1\.0/([^)]+)\)", text):
        target = targets.pop(0)
        assert path == (f"README.md{target}" if target.startswith("#") else target)
        assert (ROOT / path.partition("#")[0]).is_file()
        assert (kind == "raw") is path.endswith(".png")
    assert targets == []


def test_links_to_other_hosts_are_left_alone() -> None:
    text = "[A](https://host.example/a) <http://127.0.0.1:8080> `[0]`(b)"
    assert readme(text, ADDRESS, "0.1.0") == text


@pytest.mark.parametrize("address", ["magnetar", "http://host.example/o/n", f"{ADDRESS}/"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"address is {address!r}")):
        urls(address)


def test_the_address_is_none_or_a_real_one() -> None:
    """Names that end with ``.example`` lead nowhere by their definition."""
    addresses = urls(configured()).values()
    assert [address for address in addresses if ".example" in address] == []

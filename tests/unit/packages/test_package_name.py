"""Names of packages."""

import pytest

from engine.base.errors import InvalidNameError
from engine.base.names import NamespaceName
from engine.packages.package_name import LATEST, PackageName, check_kind

NAMESPACE = NamespaceName.parse("public/default")


@pytest.mark.parametrize(
    "text", ["function://public/default/a b.ü%@1", "sink://public/default/a:b@v"]
)
def test_a_name_is_its_url(text: str) -> None:
    assert str(PackageName.parse(text)) == text


def test_a_url_without_a_version_names_the_latest() -> None:
    name = PackageName("source", NAMESPACE, "a", LATEST)
    assert PackageName.parse("source://public/default/a") == name


@pytest.mark.parametrize(
    "text",
    [
        *("", "a", "function:/a/b/c", "function://a", "function://a/b", "bogus://a/b/c@1"),
        *("function://a/b/@1", "function://a/b/c@", "function://a/b/.@1", "function://a/b/c@.."),
        *(
            "function://a/b/c/d@1",
            "function://a/b/c@d@1",
            "function://a/b/c\n@1",
            "function://a/b/ @1",
        ),
        *("function://a /b/c@1", f"function://a/b/{'x' * 256}@1", "function://a/b/\ud800@1"),
        "function://../b/c@1",
    ],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(InvalidNameError):
        PackageName.parse(text)


def test_an_unknown_kind_is_refused_with_apaches_text() -> None:
    with pytest.raises(InvalidNameError, match="Invalid package domain: 'bogus'"):
        check_kind("bogus")

"""Paths that a node may have, as ZooKeeper's PathUtils decides."""

import pytest

from engine.metadata.server.node_paths import is_valid, join, split


@pytest.mark.parametrize(
    "path",
    ["/", "/a", "/a/b.c", "/...", "/.a", "/a.", "/a..b/c", "/ü", "/a b", "/\ufdd0", "/\U0000ffef"],
)
def test_a_path_of_named_parts_is_valid(path: str) -> None:
    assert is_valid(path)


@pytest.mark.parametrize(
    "path",
    [
        "", "a", "a/b", "//", "/a/", "/a//b", "/.", "/..", "/a/.", "/a/..", "/./a", "/a/../b",
        "/a\0", "/\x01", "/a\n", "/\x1f", "/\x7f", "/\x9f", "/\ue000", "/\uf8ff", "/\ufff0", "/\U0001f600",
    ],
)  # fmt: skip
def test_a_path_with_an_empty_or_relative_part_or_a_forbidden_character_is_invalid(
    path: str,
) -> None:
    assert not is_valid(path)


def test_a_path_is_split_into_parent_and_name() -> None:
    assert split("/a/b") == ("/a", "b")
    assert split("/a") == ("", "a")
    assert join("/", "a") == join("", "a") == "/a"
    assert join("/a", "b") == "/a/b"

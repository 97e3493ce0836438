"""Viewers: what of tenants, namespaces and topics each sees."""

import pytest

from engine.auth.viewer import ALL, Viewer
from engine.base.errors import Forbidden, InvalidNameError

SOME = Viewer(frozenset({"a/one", "a/two", "old/west/one"}), frozenset({"b"}))


def test_a_viewer_sees_its_namespaces_and_those_of_the_tenants_it_administers() -> None:
    seen = [name for name in ("a/one", "a/three", "b/any", "c/one", "") if SOME.sees(name)]
    assert seen == ["a/one", "b/any"]
    assert all(ALL.sees(name) for name in ("a/three", "c/one"))
    assert not any(Viewer().sees(name) for name in ("a/one", "b/any", "/", ""))


def test_a_topic_is_seen_with_its_namespace() -> None:
    names = (
        *("persistent://a/one/t", "non-persistent://b/x/t", "persistent://a/three/one"),
        *("persistent://old/west/one/t", "persistent://old/east/one/t", "persistent://c/a/one"),
    )
    assert [name for name in names if SOME.sees_topic(name)] == [*names[:2], names[3]]
    assert all(ALL.sees_topic(name) for name in names)


def test_a_tenant_is_seen_when_one_of_its_namespaces_is() -> None:
    assert [name for name in ("a", "b", "c", "old", "a/one") if SOME.sees_tenant(name)] == [
        *("a", "b", "old")
    ]
    assert ALL.sees_tenant("c")


def test_equal_viewers_are_one_key() -> None:
    again = Viewer(frozenset(["a/two", "old/west/one", "a/one"]), frozenset("b"))
    assert {SOME: 1}[again] == 1
    assert len({SOME, ALL, Viewer(), Viewer(frozenset({"a/one"})), again}) == 4


def test_data_of_all_tenants_is_refused_to_a_viewer_of_some() -> None:
    ALL.require_everything("Runs")
    with pytest.raises(Forbidden, match="Runs are of all tenants"):
        SOME.require_everything("Runs")


def test_a_viewer_of_something_that_is_no_namespace_is_refused() -> None:
    with pytest.raises(InvalidNameError):
        Viewer(frozenset({"tenant"}))

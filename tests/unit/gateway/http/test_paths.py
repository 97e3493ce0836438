"""Names in raw paths, as command lines that the console gives write them; the index of URL patterns."""

import itertools
import json

import pytest
from django.urls import Resolver404, ResolverMatch, get_resolver, include, path, re_path
from django.urls.resolvers import RegexPattern, URLResolver

from gateway.http.paths import RouteIndex, SegmentConverter, TwiceEncodedConverter
from gateway.rest.routes import routes
from tests.support.import_graph import ROOT

SEGMENTS = json.loads(
    (ROOT / "frontend/src/shared/commands/subscription-segments.json").read_text()
)


@pytest.mark.parametrize("row", SEGMENTS, ids=lambda row: str(row["name"]))
def test_a_copied_command_names_the_subscription_it_was_copied_for(row: dict[str, str]) -> None:
    assert "/" not in row["segment"]
    assert TwiceEncodedConverter().to_python(row["segment"]) == row["name"]


@pytest.mark.parametrize("text", [".", "%2E%2E", "a%00"])
def test_a_segment_that_means_another_path_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a path segment"):
        SegmentConverter().to_python(text)


VALUES = (
    "public",
    "a%2Fb",
    "12",
    "-1",
    "..",
    "%FF",
    "a+b",
    "stats",
    "v2",
    "persistent",
    "é",
    "a\n",
)


def outcome(resolved: ResolverMatch | Resolver404) -> object:
    """Return what of a match, or of its absence, the gateway uses."""
    if isinstance(resolved, Resolver404):
        return resolved.args[0]["path"]
    return (
        resolved.func,
        resolved.args,
        resolved.kwargs,
        resolved.captured_kwargs,
        resolved.route,
        resolved.url_name,
    )


def resolve(resolver: URLResolver | RouteIndex, text: str) -> object:
    try:
        return outcome(resolver.resolve(text))
    except Resolver404 as error:
        return outcome(error)


def paths_of(template: str) -> list[str]:
    """Return two paths of a template's shape with various values, and a longer and a shorter one."""
    values = itertools.cycle(VALUES)
    first, second = (
        "/".join(next(values) if "{" in segment else segment for segment in template.split("/"))
        for _ in range(2)
    )
    return [first, second, first + "/more", first.rpartition("/")[0]]


def test_routes_are_matched_as_by_django() -> None:
    whole = get_resolver()
    index = RouteIndex(whole)
    for route in itertools.islice(routes().values(), None, None, 4):
        for text in paths_of(route.template):
            assert resolve(index, text) == resolve(whole, text), text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "//",
        "/nothing",
        "/api/v1/nothing",
        "/clusters/b/admin/v2/tenants",
        "/clusters/b/admin/v2/persistent/t/n/x/stats",
        "/clusters//admin/v2/tenants",
        "/ws/v2/producer/persistent/a/b/c",
        "/ws/v3/consumer/x",
        "/topics/persistent/t/n/x",
        "/admin/v2/persistent/t/n/x/subscription/s/skip/1",
    ],
)
def test_other_paths_are_matched_as_by_django(text: str) -> None:
    whole = get_resolver()
    assert resolve(RouteIndex(whole), text) == resolve(whole, text)


def test_few_patterns_are_tried_for_a_topic() -> None:
    index = RouteIndex(get_resolver())
    assert len(index.candidates("/admin/v2/persistent/public/default/t")) <= 8


def test_patterns_whose_segments_vary_keep_their_place() -> None:
    def view() -> None:
        pass

    def other() -> None:
        pass

    whole = URLResolver(
        RegexPattern(r"^/"),
        [
            path("a/<str:name>", view),
            path("a/<path:rest>", other),
            re_path(r"^b/(?P<rest>.*)$", other),
            path("b/<int:number>", view),
            path("c", include([path("d/<slug:name>-<int:number>", view)])),
        ],
    )
    index = RouteIndex(whole)
    for text in ("/a/x", "/a/x/y", "/b/1", "/b/x/y", "/cd/x-1", "/cd/x", "/c/d/x-1", "/a/", "/e"):
        assert resolve(index, text) == resolve(whole, text), text

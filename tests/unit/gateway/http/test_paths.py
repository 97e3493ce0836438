"""Names in raw paths, as command lines that the console gives write them."""

import json

import pytest

from gateway.http.paths import SegmentConverter, TwiceEncodedConverter
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

"""Built-in connectors are found by their names, and listed in Pulsar's form."""

import pytest

from engine.base.errors import UnusableField
from engine.functions.connectors.catalogue import CATALOGUE, definitions, sink_end, source_end


def test_an_end_is_found_by_its_archive() -> None:
    assert source_end("builtin://generator") is CATALOGUE["generator"].source


@pytest.mark.parametrize("name", ["builtin://generator", "builtin://nothing"])
def test_an_end_that_is_not_there_is_refused_with_those_that_are(name: str) -> None:
    with pytest.raises(UnusableField, match="archive: no built-in sink"):
        sink_end(name)


def test_each_connector_is_listed_once_with_its_classes() -> None:
    rows = {row["name"]: row for row in definitions()}
    assert rows.keys() == CATALOGUE.keys()
    expected = "engine.functions.connectors.generator.GeneratorSource"
    assert rows["generator"]["sourceClass"] == expected
    assert rows["generator"]["sinkClass"] is None

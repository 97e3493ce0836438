"""Settings of connectors: errors name the field, and secrets are shown nowhere."""

import re

import pytest

from engine.base.errors import UnusableField
from engine.functions.connectors.catalogue import CATALOGUE
from engine.functions.connectors.connector_settings import (
    MASK,
    checked,
    config_definition,
    fields,
    mapping,
    masked,
    text,
    texts,
    unmasked,
    whole,
    with_secrets,
)

SCHEMA = fields(
    ("url", "password"),
    url=text("URL", "Where", pattern="^https?://"),
    password=text("Password", "Of the user", secret=True, longest=8),
    batch=whole("Batch", "Rows", 100, 1, 1000),
    names=texts("Names", "Of tables"),
    headers=mapping("Headers", "Sent along", secret=True),
)
GOOD = {"url": "http://x", "password": "secret"}


def test_defaults_are_filled_in() -> None:
    assert checked(SCHEMA, GOOD) == {**GOOD, "batch": 100, "names": [], "headers": {}}


@pytest.mark.parametrize(
    ("change", "field", "text"),
    [
        ({"batch": 0}, "configs.batch", "minimum"),
        ({"batch": "x"}, "configs.batch", "integer"),
        ({"names": ["a", ""]}, "configs.names.1", "non-empty"),
        ({"url": "ftp://x"}, "configs.url", "does not match"),
        ({"batches": 1}, "configs.batches", "did you mean batch?"),
        ({"zzz": 1}, "configs.zzz", "there are: url"),
    ],
)
def test_an_error_names_the_field(change: dict[str, object], field: str, text: str) -> None:
    with pytest.raises(UnusableField) as caught:
        checked(SCHEMA, {**GOOD, **change})
    assert caught.value.field == field
    assert text in caught.value.reason


def test_a_missing_field_is_named_unless_it_is_among_the_secrets() -> None:
    with pytest.raises(UnusableField, match=r"configs\.password: is required"):
        checked(SCHEMA, {"url": "http://x"})
    with pytest.raises(UnusableField, match=r"configs\.url: is required"):
        checked(SCHEMA, {"password": "x"}, secrets=["url"])
    given = checked(SCHEMA, {"url": "http://x"}, secrets=["password"])
    assert with_secrets(SCHEMA, given, {"password": "p"}.get)["password"] == "p"


@pytest.mark.parametrize("change", [{"password": "much-too-long"}, {"headers": {"a": 777}}])
def test_an_error_does_not_show_a_secret(change: dict[str, object]) -> None:
    with pytest.raises(UnusableField) as caught:
        checked(SCHEMA, {**GOOD, **change})
    assert "much-too-long" not in caught.value.reason
    assert "777" not in caught.value.reason


def test_secrets_are_masked_and_a_mask_keeps_the_stored_one() -> None:
    shown = masked(SCHEMA, {**GOOD, "headers": {"a": "b"}})
    assert shown == {"url": "http://x", "password": MASK, "headers": MASK}
    assert unmasked(SCHEMA, shown, GOOD)["password"] == "secret"
    assert unmasked(SCHEMA, {"password": "new"}, GOOD)["password"] == "new"


def test_the_definition_is_pulsars() -> None:
    rows = {row["fieldName"]: row for row in config_definition(SCHEMA)}
    assert rows["password"]["attributes"] == {
        "required": "true",
        "defaultValue": "",
        "sensitive": "true",
        "help": "Of the user",
    }
    assert rows["batch"]["typeName"] == "long"
    assert rows["batch"]["attributes"]["defaultValue"] == "100"


@pytest.mark.parametrize("name", CATALOGUE)
def test_defaults_of_the_catalogue_are_valid_themselves(name: str) -> None:
    for end in (CATALOGUE[name].source, CATALOGUE[name].sink):
        if end is not None:
            relaxed = {**end.settings, "required": []}
            assert checked(relaxed, checked(relaxed, {})) == checked(relaxed, {})
            assert end.condition.endswith(".")


@pytest.mark.parametrize("name", CATALOGUE)
@pytest.mark.parametrize(
    "rest", ["app:secret@host/x", "host/x?password=secret", "host/?SSLPassword=secret"]
)
def test_a_url_with_a_password_is_refused_without_it(name: str, rest: str) -> None:
    for end in (CATALOGUE[name].source, CATALOGUE[name].sink):
        if end is None:
            continue
        for field, rules in end.settings["properties"].items():
            if "URL" not in (rules["title"], rules["description"][:3]):
                continue
            scheme = re.sub(r"[^a-z].*", "", rules["pattern"].lstrip("^("))
            settings = {field: f"{scheme}://{rest}"}
            with pytest.raises(UnusableField) as caught:
                checked({**end.settings, "required": []}, settings)
            assert caught.value.field == f"configs.{field}"
            assert "shows its password" in caught.value.reason
            assert "secret@" not in caught.value.reason

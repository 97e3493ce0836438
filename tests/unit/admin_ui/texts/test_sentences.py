"""German of the gateway's sentences, frontend/translation/sentences.json, compared with the sources."""

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

from django.contrib.auth import password_validation, validators
from django.core.validators import ProhibitNullCharactersValidator
from rest_framework import fields as form_fields
from rest_framework import serializers
from rest_framework.validators import ProhibitSurrogateCharactersValidator

from admin_ui.policies.selectors import SHOWN
from engine.base.settings import settings_of
from engine.functions.connectors.catalogue import CATALOGUE
from engine.settings import Settings
from engine.tenancy.policies.policy import Policy
from gateway.alerts.definitions import FIGURES
from spark_jobs.catalogue import ANALYSES

ROOT = Path(__file__).parents[4]
PACKAGES = ("engine", "bookie", "gateway", "admin_ui", "spark_jobs")
REPORTS = (
    *("dead_letters/job", "disk_not_freed/job", "export/job", "field_drift/job", "find/job"),
    *("hot_keys/job", "kit/progress", "kit/series", "lost_doubled_reordered/judging"),
    *("lost_doubled_reordered/job", "personal_data/detectors", "personal_data/job"),
    *("replication_audit/job", "sql/job", "topic_profile/figures", "topic_profile/job"),
    *("usage/job", "what_if/job", "who_is_behind/consumers", "who_is_behind/job"),
)
"""Modules of analyses that make what a report has."""
COMPOSED = (
    "gateway/services/attention/wording.py",
    "gateway/services/attention/link_items.py",
    "gateway/services/attention/part_items.py",
    "gateway/services/health/hops.py",
    "gateway/alerts/conditions.py",
    "gateway/alerts/preview.py",
    "engine/auth/authorization/evaluator.py",
    "engine/auth/authorization/reasons.py",
    "engine/managed/writing/ledger_holders.py",
    "gateway/access/issued_tokens.py",
    "gateway/alerts/sending.py",
    "gateway/http/errors.py",
    "gateway/people/signing_in.py",
    *(f"spark_jobs/jobs/{name}.py" for name in REPORTS),
)
"""Files whose sentences are shown, each of them."""
REFUSING = ("admin_ui", "gateway/access", "gateway/alerts", "gateway/copies", "gateway/people")
"""Packages whose refusals the console shows."""
REFUSALS = frozenset(
    {"Conflict", "Forbidden", "InvalidField", "NotFound", "NotReady", "Unprocessable"}
    | {"AlreadyExists", "PreconditionFailed", "UnusableField", "ValidationError"}
)
OF_PROGRAMS = ("admin_ui/live.py", "admin_ui/feeds.py", "admin_ui/mcp/")
"""Files whose refusals only programs receive."""
FORM_FIELDS = (
    *(form_fields.BooleanField, form_fields.CharField, form_fields.ChoiceField),
    *(form_fields.DictField, form_fields.EmailField, form_fields.FloatField),
    *(form_fields.IntegerField, form_fields.JSONField, form_fields.ListField),
    *(form_fields.RegexField, serializers.Serializer),
)
"""Fields that the shapes of bodies have."""
NOT_SHOWN = frozenset(
    {r"has not (answered|reported) for \d+ s", "used tokens", "no error is handled", "text string"}
    | {"task bigint, groups string", "task bigint, written string", "< 1 min", "1-10 min"}
    | {"10-60 min"}
)
"""Literals of these files that are no words for people, or the same in German."""
LOGGING = frozenset({"debug", "info", "warning", "error", "exception", "log"})
"""Methods of a logger."""
PIECES_MAX = 5
"""Literals that make up the words between two values of an entry."""
UNIT_CHARS = 4
"""Longest name of a unit, which a source may put together."""
HOLE = re.compile(r"\{\w+\}")
WORDS = re.compile(r"[A-Za-z]{2,}.*[A-Za-z]")


@cache
def german() -> dict[str, str]:
    path = ROOT / "frontend" / "translation" / "sentences.json"
    sentences: dict[str, str] = json.loads(path.read_text())
    return sentences


def test_each_declared_text_has_its_german() -> None:
    texts = set(filter(None, declared()))
    assert len(texts) > 450
    assert sorted(texts - german().keys()) == []


def declared() -> Iterator[str]:
    """Yield the texts that are declared once and shown as they are."""
    for policy in SHOWN:
        yield from (policy.title, policy.meaning, *_texts_of_parts(policy))
    for group in fields(Settings):
        for setting in settings_of(get_type_hints(Settings)[group.name], "", False):
            if setting.pulsar_name and setting.is_live:
                help = setting.item.metadata["help"]
                yield help.removesuffix(f"({setting.pulsar_name})").strip()
    for figures in FIGURES.values():
        for figure in figures.values():
            yield from (figure.label, figure.unit)
    for analysis in ANALYSES.values():
        yield from (analysis.title, analysis.question, *_texts_of(analysis.parameters))
    for connector in CATALOGUE.values():
        yield connector.description
        for end in (connector.source, connector.sink):
            if end is not None:
                yield from (end.promise, end.condition, *_texts_of(end.settings))


def _texts_of(schema: dict[str, Any]) -> Iterator[str]:
    for part in schema.get("properties", {}).values():
        yield from (part["title"], part["description"])


def _texts_of_parts(policy: Policy) -> Iterator[str]:
    """Yield the labels of a value's fields as the console makes them, their units, and words for special numbers."""
    schema = policy.form.schema()
    for part in schema.get("fields") or [{"name": "", **schema}]:
        label = re.sub(r"In(Minutes|Seconds|MB)$", "", part["name"])
        yield re.sub(r"([a-z])([A-Z])", r"\1 \2", label).lower()
        unit = part.get("unit", "")
        yield from (unit, unit.removesuffix("s"))
    for match in re.finditer(r"-?\d+(?: and -?\d+)? (?:is |are )?([a-z][a-z' :]*)", policy.meaning):
        yield match[1].strip()


def test_each_literal_of_a_composed_sentence_is_in_an_entry() -> None:
    missing = [
        f"{file}: {text}"
        for file in COMPOSED
        for text in _literals(ast.parse((ROOT / file).read_text()))
        if WORDS.search(text) and " " in text and text not in NOT_SHOWN and _is_missing(text)
    ]
    assert not missing, "\n".join(missing)


@cache
def entries() -> str:
    return "\n".join(HOLE.sub("\0", key).lower() for key in german())


def _is_missing(text: str) -> bool:
    """Return whether the words of a text, as far as it has no value between, are in no entry."""
    return any(
        re.sub("^1 ", "\0 ", part.strip(" .;:,·")).lower() not in entries()
        for part in re.split(r"(?<=[.!?]) (?=[A-Z])| · |\{\w+\}", text)
    )


def test_each_refusal_that_the_console_shows_is_in_an_entry() -> None:
    refusals = set(_refusals())
    assert len(refusals) > 200
    missing = [
        f"{file}: {text}"
        for file, text in sorted(refusals)
        if WORDS.search(text) and " " in text and _is_missing(text)
    ]
    assert not missing, "\n".join(missing)


def _refusals() -> Iterator[tuple[str, str]]:
    """Yield the literals of raised refusals, each with its file."""
    for package in REFUSING:
        for path in sorted((ROOT / package).rglob("*.py")):
            file = str(path.relative_to(ROOT))
            if file.startswith(OF_PROGRAMS) or "migrations" in path.parts:
                continue
            for node in ast.walk(ast.parse(path.read_text())):
                match node:
                    case ast.Raise(exc=ast.Call(func=called, args=arguments)):
                        name = ast.unparse(called).rpartition(".")[2]
                        if name in REFUSALS and arguments:
                            yield from ((file, text) for text in _literals(arguments[-1]))


def test_each_check_of_a_form_by_a_library_has_its_german() -> None:
    assert len(library_texts()) > 20
    assert sorted(text for text in library_texts() if _is_missing(text)) == []


@cache
def library_texts() -> frozenset[str]:
    """Return what checks of fields, names and passwords say."""
    return frozenset(
        {
            *(text for field in FORM_FIELDS for text in _messages_of(field)),
            str(validators.UnicodeUsernameValidator.message),
            *(_shown_rule(text) for text in PASSWORD_RULES),
            str(NULL_CHARACTERS),
            str(ProhibitSurrogateCharactersValidator.message).replace(":X}", "}"),
        }
    )


NULL_CHARACTERS = ProhibitNullCharactersValidator.message
PASSWORD_RULES = (
    password_validation.MinimumLengthValidator(10).get_error_message(),
    password_validation.UserAttributeSimilarityValidator().get_error_message()
    % {"verbose_name": "x"},
    password_validation.CommonPasswordValidator().get_error_message(),
    password_validation.NumericPasswordValidator().get_error_message(),
)


def _shown_rule(text: Any) -> str:
    return re.sub(r"\d+|(?<=the )x", "{value}", str(text))


def _messages_of(field: type) -> Iterator[str]:
    for parent in field.__mro__:
        yield from map(str, getattr(parent, "default_error_messages", {}).values())


def test_the_words_of_each_entry_are_in_a_source() -> None:
    declared_texts = set(declared())
    sources = "\n".join(sorted({*_sources(), *library_texts()})).lower()
    dead = [
        key
        for key in german()
        if key not in declared_texts
        for part in HOLE.split(key)
        for words in [part.strip(" .;:,()").lower()]
        if len(words) > UNIT_CHARS and not _is_said(words, sources)
    ]
    assert not dead, "\n".join(dead)


def _is_said(words: str, sources: str) -> bool:
    """Return whether a source has the words, or a few that are put together have them."""
    rest = words.split()
    for _ in range(PIECES_MAX):
        size = next((n for n in range(len(rest), 0, -1) if " ".join(rest[:n]) in sources), 0)
        rest = rest[size:]
        if not rest:
            return True
    return False


def test_an_entry_and_its_german_have_the_same_values() -> None:
    texts = set(declared())
    wrong = {
        key: text
        for key, text in german().items()
        if key not in texts and sorted(HOLE.findall(key)) != sorted(HOLE.findall(text))
    }
    assert not wrong


def _sources() -> Iterator[str]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if "migrations" not in path.parts:
                yield from _literals(ast.parse(path.read_text()))


def _literals(node: ast.AST) -> Iterator[str]:
    """Yield the literals below ``node`` that are no docstrings; of a formatted text each piece."""
    match node:
        case ast.Expr(value=ast.Constant()):
            return
        case ast.Call(func=ast.Attribute(attr=called)) if called in LOGGING:
            return
        case ast.Call(func=ast.Attribute(value=ast.Name("re"))):
            return
        case ast.Constant(value=str(text)):
            yield text.strip()
    for child in ast.iter_child_nodes(node):
        yield from _literals(child)

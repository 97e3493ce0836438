"""Payload rules: whether a person sees the payloads of messages. Kept in memory for a second (A38)."""

import time
from collections.abc import Sequence
from typing import Any, Protocol

from django.db import transaction

from engine.base.errors import Conflict, InvalidField
from engine.base.names import NamespaceName
from gateway.access.models import PayloadRule
from gateway.clusters.registry import Clusters
from gateway.sign_in import LEVELS, AccessLevel

RENEW_S = 1.0
RULES_MAX = 500
EVERY = "*"
NAMES = ("role", "level", "namespace", "shown")
Rule = dict[str, Any]


class Matching(Protocol):
    """A rule, as far as it matches."""

    role: Any
    level: Any
    namespace: Any
    shown: Any


def shows(rules: Sequence[Matching], role: str, level: str, namespace: str) -> bool:
    """Return whether a role at a level sees the payloads of a namespace: by the first rule that matches, else where the
    level is full. A damaged rule hides all that the rules before it do not decide: it may be one that hides."""
    for rule in rules:
        if not _is_whole(rule):
            return False
        is_of_caller = rule.role in ("", role) and rule.level in ("", level)
        if is_of_caller and covers(rule.namespace, namespace):
            return bool(rule.shown)
    return level == AccessLevel.FULL


def _is_whole(rule: Matching) -> bool:
    """Return whether a stored rule is as the console writes it; SQLite keeps values of other kinds."""
    known = rule.shown in (True, False) and rule.level in ("", *LEVELS)
    return known and isinstance(rule.role, str) and isinstance(rule.namespace, str)


def covers(pattern: str, namespace: str) -> bool:
    """Return whether a pattern stands for a namespace, by its full name."""
    if pattern.endswith("/*"):
        return namespace.startswith(pattern[:-1])
    return pattern in (EVERY, namespace)


class PayloadRules:
    """The rules as the database has them, at most RENEW_S old: a part of the process's clusters."""

    def __init__(self, clusters: Clusters) -> None:
        self._rules: tuple[PayloadRule, ...] = ()
        self._until_s = 0.0

    async def current(self) -> tuple[PayloadRule, ...]:
        """Return the rules in their order. Raises DatabaseError."""
        if time.monotonic() >= self._until_s:
            read_at_s = time.monotonic()
            self._rules = tuple([rule async for rule in PayloadRule.objects.all()])
            self._until_s = read_at_s + RENEW_S
        return self._rules

    def renew(self) -> None:
        """Read the rules again at the next call."""
        self._until_s = 0.0


def listed(rules: Sequence[PayloadRule]) -> list[Rule]:
    """Return rules as they are shown and given."""
    return [{name: getattr(rule, name) for name in NAMES} for rule in rules]


def checked_rules(given: Sequence[Rule]) -> list[Rule]:
    """Return rules that may be stored. Raises InvalidField."""
    if len(given) > RULES_MAX:
        raise InvalidField("rules", f"at most {RULES_MAX} rules")
    for rule in given:
        if rule["level"] not in ("", *LEVELS):
            raise InvalidField("rules", f"level must be empty or one of {', '.join(LEVELS)}")
        pattern = rule["namespace"]
        if pattern != EVERY:
            tenant_only = pattern.endswith("/*")
            NamespaceName.parse(f"{pattern[:-2]}/x" if tenant_only else pattern)
    return [{name: rule[name] for name in NAMES} for rule in given]


def replace_rules(rules: Sequence[Rule], expected: Sequence[Rule]) -> list[Rule]:
    """Store ``rules`` in place of ``expected``, in one transaction; return those that were replaced. Raises Conflict
    when others are stored."""
    with transaction.atomic():
        stored = listed(list(PayloadRule.objects.all()))
        if stored != [{name: rule[name] for name in NAMES} for rule in expected]:
            raise Conflict("The payload rules were changed meanwhile; look at them again")
        PayloadRule.objects.all().delete()
        PayloadRule.objects.bulk_create(
            PayloadRule(position=position, **rule) for position, rule in enumerate(rules)
        )
    return stored

"""Judges for tests of the places that check access."""

from engine.auth.actions import Action
from engine.auth.identity import Identity
from engine.auth.judge import ALLOWED, Judgement, Verdict
from engine.auth.resource_names import Resource

REASON = "this judge allows nothing"


class DenyAll:
    """Judge that refuses everything but the actions of ``allowed``, and records each request."""

    def __init__(self, *allowed: Action) -> None:
        self._allowed = allowed
        self.asked: list[tuple[Identity, Action, Resource]] = []

    def judge(self, identity: Identity, action: Action, resource: Resource) -> Judgement:
        self.asked.append((identity, action, resource))
        return ALLOWED if action in self._allowed else Verdict(False, REASON)

"""Tokens that the console issues: of roles, by superusers, and personal ones."""

from admin_ui.resource import Resource
from admin_ui.tokens.api import OwnTokensView, OwnTokenView, TokensView, TokenView

TOKENS = Resource(
    routes={
        "tokens": TokensView,
        "tokens/<number:token_id>": TokenView,
        "session/tokens": OwnTokensView,
        "session/tokens/<number:token_id>": OwnTokenView,
    }
)

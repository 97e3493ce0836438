"""Shapes of issued tokens."""

from rest_framework import serializers as s

from gateway.sign_in import LEVELS

EXPIRY_MIN_S = 60
EXPIRY_MAX_S = 10 * 366 * 86_400
TOKEN_KINDS = ("role", "personal")


class TokenRow(s.Serializer[object]):
    id = s.CharField()
    token_id = s.CharField(help_text="the claim jti")
    name = s.CharField()
    role = s.CharField()
    level = s.ChoiceField(choices=LEVELS)
    kind = s.ChoiceField(choices=TOKEN_KINDS)
    person = s.CharField(help_text="owner of a personal token, else empty")
    created_by = s.CharField()
    created_at = s.IntegerField()
    expires_at = s.IntegerField(allow_null=True, help_text="null: it does not end")
    used_at = s.IntegerField(
        allow_null=True, help_text="last use at a gateway, up to a minute late; brokers report none"
    )
    revoked_at = s.IntegerField(allow_null=True)
    revoked_by = s.CharField()


class TokensAnswer(s.Serializer[object]):
    obstacle = s.CharField(help_text="why no token can be issued; empty when it can")
    total = s.IntegerField()
    offset = s.IntegerField()
    limit = s.IntegerField()
    rows = TokenRow(many=True, help_text="newest first")


class OwnTokenBody(s.Serializer[object]):
    """A personal token of the acting role. It serves at gateways alone."""

    name = s.CharField(max_length=120)
    level = s.ChoiceField(choices=LEVELS, help_text="at most the caller's own")
    expires_in_s = s.IntegerField(min_value=EXPIRY_MIN_S, max_value=366 * 86_400)


class NewTokenBody(s.Serializer[object]):
    """A token of a role. Below level full it serves at gateways alone."""

    name = s.CharField(max_length=120)
    role = s.CharField(max_length=255, trim_whitespace=False)
    level = s.ChoiceField(choices=LEVELS)
    expires_in_s = s.IntegerField(
        min_value=EXPIRY_MIN_S,
        max_value=EXPIRY_MAX_S,
        allow_null=True,
        help_text="null: it does not end",
    )


class NewTokenAnswer(s.Serializer[object]):
    token = s.CharField(help_text="shown here alone: it is not stored")
    row = TokenRow()

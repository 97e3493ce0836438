"""Records of payload rules and of issued tokens."""

from django.db import models


class PayloadRule(models.Model):
    """A rule for the payloads of some namespaces. Of the rules that match, the first in their order decides."""

    position = models.PositiveIntegerField()
    role = models.CharField(max_length=255, default="", help_text="exact; empty: every role")
    level = models.CharField(max_length=16, default="", help_text="exact; empty: every level")
    namespace = models.CharField(
        max_length=512, help_text="full name, or all of a tenant as t/*, or all as *"
    )
    shown = models.BooleanField()

    class Meta:
        ordering = ["position"]

    def __str__(self) -> str:
        return f"{self.role or '*'} {self.level or '*'} {self.namespace}: {self.shown}"


class IssuedToken(models.Model):
    """A token that the console has issued. The token itself is not stored: its id is enough to revoke it."""

    token_id = models.CharField(max_length=71, unique=True, help_text="the claim jti")
    name = models.CharField(max_length=120, help_text="what it is for")
    role = models.CharField(max_length=255)
    level = models.CharField(max_length=16)
    person = models.CharField(
        max_length=150, default="", help_text="owner of a personal token; empty: of a role"
    )
    created_by = models.CharField(max_length=255)
    created_at_ms = models.BigIntegerField()
    expires_at_ms = models.BigIntegerField(null=True, help_text="null: it does not end")
    used_at_ms = models.BigIntegerField(null=True, help_text="last use at a gateway; null: none")
    revoked_at_ms = models.BigIntegerField(null=True)
    revoked_by = models.CharField(max_length=255, default="")

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["person", "id"], name="token_person")]

    def __str__(self) -> str:
        return f"{self.name} ({self.role}, {self.level})"

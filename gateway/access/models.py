"""Records of payload rules."""

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

"""Texts and documents of notifications. Pure.

Names in them are chosen by tenants: those for Slack are escaped, and a subject of an e-mail is one line.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from gateway.alerts.models import AlertFiring, DeliveryKind

LISTED_MAX = 20
"""Firings that a text lists; documents of webhooks have all."""
WORDS = {
    DeliveryKind.BEGIN: "firing",
    DeliveryKind.ESCALATION: "not acknowledged",
    DeliveryKind.END: "ended",
}


class Notification(NamedTuple):
    """A notification. ``id``: the same whenever it is sent again. ``console``: address of the console; may be empty."""

    id: str
    kind: DeliveryKind
    cluster: str
    rule: str
    severity: str
    firings: Sequence[AlertFiring]
    left_out: int
    console: str

    @property
    def subject(self) -> str:
        """The message in one line."""
        count = len(self.firings) + self.left_out
        first = self.firings[0].title if self.firings else ""
        what = first if count == 1 else f"{count:,} objects"
        line = f"[{self.cluster}] {self.severity} {WORDS[self.kind]}: {self.rule}: {what}"
        return " ".join(line.split())

    @property
    def lines(self) -> list[str]:
        """The firings as texts, one a line."""
        lines = []
        for firing in self.firings[:LISTED_MAX]:
            text = f"{firing.title} – {firing.detail}" if firing.detail else firing.title
            if self.kind is DeliveryKind.END:
                text = f"{firing.title} – ended {_moment(firing.ended_at)}"
                text += f" ({firing.end_reason})" if firing.end_reason else ""
            lines.append(" ".join(f"{text} · since {_moment(firing.since)}".split()))
        more = len(self.firings) - LISTED_MAX
        if more > 0 or self.left_out:
            lines.append(f"and {max(more, 0) + self.left_out:,} more")
        return lines

    @property
    def page(self) -> str:
        """Address of the page of alerts."""
        return f"{self.console.rstrip('/')}/alerts"

    def document(self) -> dict[str, Any]:
        """Return the JSON document of a webhook."""
        return {
            "id": self.id,
            "event": str(self.kind),
            "cluster": self.cluster,
            "rule": self.rule,
            "severity": self.severity,
            "text": self.subject,
            "left_out": self.left_out,
            "console": self.page,
            "firings": [
                {
                    "id": str(firing.pk),
                    "title": firing.title,
                    "detail": firing.detail,
                    "topic": firing.topic,
                    "subscription": firing.subscription,
                    "value": firing.value,
                    "since": firing.since,
                    "began_at": firing.began_at,
                    "ended_at": firing.ended_at,
                    "end_reason": firing.end_reason,
                    "link": f"{self.console.rstrip('/')}{firing.link}" if firing.link else "",
                }
                for firing in self.firings
            ],
        }

    def slack(self) -> dict[str, Any]:
        """Return the document of a webhook that understands Slack's."""
        lines = [f"*{_escaped(self.subject)}*", *(f"• {_escaped(line)}" for line in self.lines)]
        if self.console:
            lines.append(f"<{self.page}|Open the alerts>")
        return {"text": "\n".join(lines)}

    def mail(self) -> str:
        """Return the text of an e-mail."""
        return "\n".join((self.subject, "", *self.lines, "", self.page if self.console else ""))


def _moment(at_ms: int | None) -> str:
    if at_ms is None:
        return "unknown"
    return datetime.fromtimestamp(at_ms / 1_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")

"""Settings of alerts: where notifications may go, and the mail server."""

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from engine.base.addresses import IpNetwork, ip_networks
from engine.base.disk.secret_files import read_secret
from engine.base.settings import SettingsError, count, secret, text

DAYS_MAX = 36_500
SMTP_SECURITY = ("starttls", "tls", "none")


@dataclass(frozen=True, slots=True)
class AlertSettings:
    """Alerts of the console."""

    alert_destinations: str = text(
        "",
        "host names, addresses and networks (10.0.0.0/8), with commas between, that webhooks may call although they "
        "are not public, and by http:// too; empty: only https:// at public addresses",
    )
    alert_console_url: str = text(
        "", "address of the console in notifications, https://host; empty: they have paths alone"
    )
    alert_unknown_minutes: int = count(
        5,
        "minutes after which a rule whose figures are not known is itself notified; 0: never",
        high=1_440,
    )
    alert_days: int = count(
        30, "days for which an ended firing of an alert is kept; 0: no limit", high=DAYS_MAX
    )
    smtp_host: str = text("", "mail server for alerts by e-mail; empty: there are none")
    smtp_port: int = count(587, "its port", low=1, high=65_535)
    smtp_security: str = text(
        "starttls",
        "encryption of the connection to smtp_host; none: only for a server on this machine or a private network",
        choices=SMTP_SECURITY,
    )
    smtp_user: str = text("", "user at smtp_host; empty: it needs none")
    smtp_password: str = secret("password of smtp_user, or file:///path; empty: none")
    mail_from: str = text("", "sender of alerts by e-mail; required with smtp_host")

    def __post_init__(self) -> None:
        """Check the values. Raises SettingsError."""
        if self.smtp_host and "@" not in self.mail_from:
            raise SettingsError("mail_from must be an e-mail address where smtp_host is set")
        url = self.alert_console_url
        if url and not url.startswith(("https://", "http://")):
            raise SettingsError(
                f"alert_console_url must begin with https:// or http://, not {url!r}"
            )
        try:
            _ = self.permitted_networks
        except ValueError as error:
            rule = "must be host names, addresses and networks with commas between"
            raise SettingsError(f"alert_destinations {rule}: {error}") from error

    @property
    def permitted_networks(self) -> tuple[IpNetwork, ...]:
        """The addresses and networks of ``alert_destinations``."""
        return ip_networks(",".join(entry for entry in self._entries if _is_network(entry)))

    @property
    def permitted_hosts(self) -> frozenset[str]:
        """The host names of ``alert_destinations``, in lower case."""
        return frozenset(entry.lower() for entry in self._entries if not _is_network(entry))

    @property
    def _entries(self) -> Sequence[str]:
        return [entry for part in self.alert_destinations.split(",") if (entry := part.strip())]

    def mail(self) -> dict[str, object]:
        """Return Django's settings of mail."""
        return {
            "EMAIL_HOST": self.smtp_host,
            "EMAIL_PORT": self.smtp_port,
            "EMAIL_USE_TLS": self.smtp_security == "starttls",
            "EMAIL_USE_SSL": self.smtp_security == "tls",
            "EMAIL_HOST_USER": self.smtp_user,
            "EMAIL_HOST_PASSWORD": read_secret(self.smtp_password, "smtp_password"),
            "EMAIL_TIMEOUT": 10,
            "DEFAULT_FROM_EMAIL": self.mail_from or "magnetar@localhost",
        }


def _is_network(entry: str) -> bool:
    try:
        ip_address(entry.partition("/")[0])
    except ValueError:
        return False
    return True

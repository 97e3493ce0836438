"""Sending of one notification to one channel: by HTTP, or by the mail server of the settings. All functions block.

Errors never contain a URL, or text that a destination answered.
"""

import json
import smtplib
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.core.mail import EmailMessage
from requests import Response
from requests.exceptions import (
    ConnectionError as RequestConnectionError,
)
from requests.exceptions import RequestException, SSLError, Timeout

from engine.base.errors import MagnetarError
from gateway.alerts.destinations import DestinationError, parse_url, resolve
from gateway.alerts.messages import Notification
from gateway.alerts.models import AlertChannel, AlertDelivery, ChannelKind
from gateway.alerts.store import firings_of
from gateway.services.outside.pinned_http import session_to

CONNECT_S, READ_S = 5.0, 10.0
SEND_S = 15.0
"""Time in which a destination must have answered."""
ID_HEADER = "X-Magnetar-Delivery"
"""Header with the id of a delivery, the same whenever it is sent again."""


class SendError(MagnetarError):
    """A notification was not accepted. The text is for users."""


def send(channel: AlertChannel, message: Notification) -> None:
    """Send a message. Raises SendError."""
    match ChannelKind(channel.kind):
        case ChannelKind.EMAIL:
            _mail(channel.recipients, message)
        case ChannelKind.SLACK:
            _post(channel.secret_url, message.id, message.slack())
        case ChannelKind.WEBHOOK:
            _post(channel.secret_url, message.id, message.document())


def console_url() -> str:
    """Return the address of the console in notifications; empty: not known."""
    url: str = settings.ALERTS.alert_console_url
    return url


def message_of(delivery: AlertDelivery) -> Notification:
    """Return the message of a delivery."""
    firings = list(firings_of(delivery))
    first = firings[0] if firings else None
    return Notification(
        f"{delivery.cluster}-{delivery.pk}",
        delivery.kind,  # type: ignore[arg-type]
        delivery.cluster,
        first.rule_name if first else "a rule that was deleted",
        first.severity if first else "info",
        firings,
        delivery.left_out,
        console_url(),
    )


def _mail(recipients: list[str], message: Notification) -> None:
    if not settings.ALERTS.smtp_host:
        raise SendError("no mail server is configured (smtp_host)")
    mail = EmailMessage(message.subject, message.mail(), to=recipients)
    mail.extra_headers = {ID_HEADER: message.id}
    try:
        mail.send()
    except smtplib.SMTPResponseException as error:
        raise SendError(f"the mail server refuses with code {error.smtp_code}") from None
    except smtplib.SMTPRecipientsRefused:
        raise SendError("the mail server refuses the recipients") from None
    except (smtplib.SMTPException, OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise SendError(f"the mail server cannot be used: {reason}") from None


def _post(url: str, delivery_id: str, document: Mapping[str, Any]) -> None:
    try:
        destination = parse_url(url)
        address = resolve(destination)
    except DestinationError as error:
        raise SendError(str(error)) from None
    except MagnetarError:
        # It was permitted when the channel was made.
        raise SendError("the URL is not permitted any more (alert_destinations)") from None
    host = destination.host
    try:
        with (
            session_to(host, SEND_S) as session,
            session.post(
                destination.url_at(address),
                data=json.dumps(document).encode(),
                headers={
                    "Host": destination.authority,
                    "Content-Type": "application/json",
                    "User-Agent": "magnetar-alerts",
                    ID_HEADER: delivery_id,
                },
                timeout=(CONNECT_S, READ_S),
                allow_redirects=False,
                stream=True,
            ) as answer,
        ):
            _check(answer, host)
    except Timeout:
        raise SendError(f"{host} does not answer in time") from None
    except SSLError:
        raise SendError(f"the certificate of {host} cannot be trusted") from None
    except RequestConnectionError:
        raise SendError(f"{host} cannot be connected to") from None
    except (RequestException, OSError, ValueError) as error:
        raise SendError(f"{host} does not answer as HTTP does ({type(error).__name__})") from None


def _check(answer: Response, host: str) -> None:
    status = answer.status_code
    if 300 <= status < 400:
        raise SendError(f"{host} redirects (HTTP {status}), which is not followed")
    if not 200 <= status < 300:
        raise SendError(f"{host} answers HTTP {status}")

"""Checks of brokers by Pulsar's protocol: each address, its certificate, and the addresses that are advertised."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from engine.base.addresses import ServiceUrl, is_loopback, is_wildcard
from engine.base.errors import MagnetarError
from engine.client.broker_link import BrokerLink, LinkSettings
from engine.client.errors import RefusedError, ServerError
from engine.net.network import LoopNetwork
from magnetar.command.checks.findings import Diagnosis, ok, problem, unknown, warning
from magnetar.command.connecting.client import VERSION, credentials, tls
from magnetar.command.connecting.failures import SIGN_IN, unreachable
from magnetar.command.connecting.options import ClusterAddress

ANSWER_S = 3.0
SOON_DAYS = 14
"""Days before the end of a certificate from which on it is reported."""
ADVERTISED = "advertised_address, or advertised_listeners for clients of several networks"


async def check_url(address: ClusterAddress, url: str) -> AsyncIterator[Diagnosis]:
    """Connect to a broker or proxy at ``url`` and complete the handshake."""
    part = f"broker {url}"
    failure = await refusal_of(address, url)
    if failure is None:
        yield ok(part, "answers")
    else:
        yield failure_at(part, failure)


def failure_at(part: str, failure: tuple[str, str]) -> Diagnosis:
    return problem(part, *failure)


async def refusal_of(address: ClusterAddress, url: str) -> tuple[str, str] | None:
    """Return why a broker does not serve this client at ``url``, and the remedy; None when it does."""
    try:
        host, port, encrypted = ServiceUrl.parse(url)
    except ValueError as error:
        return str(error), f"Correct the broker's setting {ADVERTISED}"
    try:
        settings = LinkSettings(
            VERSION,
            credentials=credentials(address),
            connect_timeout_s=ANSWER_S,
            tls=tls(address) if encrypted else None,
        )
        link = await BrokerLink.open(LoopNetwork(), host, port, settings, encrypted=encrypted)
    except RefusedError as error:
        if error.code is ServerError.AuthenticationError:
            return f"it refuses the credentials: {error}", SIGN_IN
        return f"it refuses the connection: {error}", ""
    except MagnetarError as error:
        if isinstance(error.__cause__, TimeoutError) and await _accepts(host, port):
            return (
                f"it accepts connections and does not answer within {ANSWER_S:g} s",
                "Its process is frozen or overloaded: read the end of its log, then start it again",
            )
        failed = unreachable(error, address, url)
        return failed.message, "Check that its process runs and that no firewall is between"
    link.close()
    return None


async def _accepts(host: str, port: int) -> bool:
    try:
        async with asyncio.timeout(1.0):
            transport, _ = await asyncio.get_running_loop().create_connection(
                asyncio.Protocol, host, port
            )
    except OSError:
        return False
    transport.abort()
    return True


async def check_advertised(
    address: ClusterAddress, broker_id: str, url: str
) -> AsyncIterator[Diagnosis]:
    """Check that clients reach a broker at the address that it advertises."""
    part = f"broker {broker_id}"
    host = ServiceUrl.parse(url).host if url else ""
    if not url or is_wildcard(host):
        yield problem(part, f"it advertises {url or 'no address'}", f"Set its {ADVERTISED}")
        return
    if is_loopback(host) and not address.is_local:
        yield problem(
            part,
            f"it advertises {url}, which other machines cannot reach",
            f"Set its {ADVERTISED}",
        )
        return
    failure = await refusal_of(address, url)
    if failure is None:
        yield ok(part, f"answers at its advertised address {url}")
        return
    text, remedy = failure
    yield problem(
        part,
        f"clients do not reach its advertised address {url}: {text}",
        remedy if "frozen" in remedy or remedy == SIGN_IN else f"{remedy}; or set its {ADVERTISED}",
    )


async def check_certificate(address: ClusterAddress, url: str) -> AsyncIterator[Diagnosis]:
    """Check how long the certificate at ``url``, whose scheme has TLS, is valid."""
    part = f"certificate of {url}"
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or 443
    context = tls(address)()
    try:
        async with asyncio.timeout(ANSWER_S):
            transport, _ = await asyncio.get_running_loop().create_connection(
                asyncio.Protocol, host, port, ssl=context, server_hostname=host
            )
    except ssl.SSLCertVerificationError as error:
        yield problem(
            part,
            f"it is not trusted: {error.verify_message}",
            "Renew it, or name its CA's file with --tls-trust-certs",
        )
        return
    except (OSError, ssl.SSLError) as error:
        reason = str(error) or type(error).__name__
        yield unknown(part, f"no TLS connection: {reason}", "See the finding about the server")
        return
    seen: Any = transport.get_extra_info("peercert")
    transport.abort()
    end = datetime.fromtimestamp(ssl.cert_time_to_seconds(seen["notAfter"]), UTC)
    yield certificate_finding(part, end)


def certificate_finding(part: str, end: datetime) -> Diagnosis:
    """Return the finding about a certificate that ends at ``end``."""
    days = (end - datetime.now(UTC)).days
    if days < 0:
        return problem(part, f"it ended on {end:%Y-%m-%d}", "Renew it: clients refuse it")
    if days < SOON_DAYS:
        return warning(part, f"it ends on {end:%Y-%m-%d}, in {days} days", "Renew it")
    return ok(part, f"valid until {end:%Y-%m-%d}")

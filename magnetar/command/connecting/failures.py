"""Errors of the client as one line for people: the cause, and what to do."""

import ssl

from engine.base.errors import InvalidNameError, MagnetarError, MisuseError
from engine.client.errors import (
    LostError,
    MessageTooLargeError,
    NoAnswerError,
    NoBrokerError,
    RefusedError,
    ServerError,
    UnreachableError,
)
from engine.net.tls import TlsFileError
from magnetar.command.connecting.options import ClusterAddress
from magnetar.command.exits import CommandFailed, Exit

SIGN_IN = "Give a token by --token-file or MAGNETAR_TOKEN_FILE"
_HINTS = {
    ServerError.AuthenticationError: (Exit.REFUSED, SIGN_IN),
    ServerError.AuthorizationError: (Exit.REFUSED, "Ask an administrator for the right"),
    ServerError.TopicNotFound: (
        Exit.MISSING,
        "Create it with `magnetar topics create`, or publish to it",
    ),
    ServerError.SubscriptionNotFound: (Exit.MISSING, ""),
    ServerError.ConsumerBusy: (
        Exit.FAILED,
        "Another consumer has the subscription: close it, or use --type shared",
    ),
    ServerError.ProducerBusy: (Exit.FAILED, "Another producer has this name"),
    ServerError.IncompatibleSchema: (Exit.FAILED, "The topic's schema refuses it"),
    ServerError.ProducerBlockedQuotaExceededException: (
        Exit.FAILED,
        "The backlog's quota is used up: see `magnetar topics stats`",
    ),
    ServerError.TopicTerminatedError: (Exit.FAILED, "It accepts no messages any more"),
}

_TLS, _CLEAR = "one for TLS", "one without TLS"
_OTHER_SCHEME = {
    "pulsar": ("pulsar+ssl", _TLS),
    "pulsar+ssl": ("pulsar", _CLEAR),
    "http": ("https", _TLS),
    "https": ("http", _CLEAR),
}
"""The scheme to try at a port that ends connections, by the scheme that was used, and the kind of the port."""


def failure(error: MagnetarError, connection: ClusterAddress, subject: str = "") -> CommandFailed:
    """Return the error of a command. ``subject``: what the command names, such as a topic, for errors without a
    text."""
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, RefusedError):
        code, hint = _HINTS.get(error.code, (Exit.FAILED, ""))
        name = error.code.name if not str(error).strip() else text
        return CommandFailed(f"{subject}: {name}" if subject else name, code, hint)
    if isinstance(error, UnreachableError | NoBrokerError):
        return unreachable(error, connection, connection.url)
    if isinstance(error, NoAnswerError | LostError):
        return CommandFailed(text, Exit.UNREACHABLE, "Try again, or see `magnetar doctor`")
    if isinstance(error, InvalidNameError | MisuseError | TlsFileError):
        return CommandFailed(text, Exit.USAGE)
    if isinstance(error, MessageTooLargeError):
        return CommandFailed(text, Exit.FAILED, "Send it with --chunks")
    return CommandFailed(f"{subject}: {text}" if subject else text)


def unreachable(error: BaseException, connection: ClusterAddress, url: str) -> CommandFailed:
    """Return the error of a server that was not reached at ``url``, with the remedy for its cause."""
    cause = root_cause(error)
    option = "--admin-url" if url == connection.admin_url else "--url"
    if isinstance(cause, ssl.SSLCertVerificationError):
        return CommandFailed(
            f"the certificate of {url} is not trusted: {cause.verify_message}",
            Exit.UNREACHABLE,
            "Name the CA's file with --tls-trust-certs, or the certificate's host in the URL",
        )
    if isinstance(cause, ssl.SSLError):
        reason = str(cause.reason or cause).lower().replace("_", " ")
        return CommandFailed(
            f"no TLS connection to {url}: {reason}",
            Exit.UNREACHABLE,
            "Check that the port is one for TLS, and which certificate the server asks for",
        )
    if isinstance(cause, LostError | ConnectionResetError) or "LostError" in str(error):
        scheme, _, rest = url.partition(":")
        other, kind = _OTHER_SCHEME.get(scheme, (scheme, "another"))
        hint = f"If the port is {kind}, use {other}:{rest}"
        return CommandFailed(f"{url} ended the connection", Exit.UNREACHABLE, hint)
    reason = _reason(cause)
    hint = "Start an instance with `magnetar dev`, or name another with"
    return CommandFailed(f"no answer at {url}: {reason}", Exit.UNREACHABLE, f"{hint} {option}")


def root_cause(error: BaseException) -> BaseException:
    """Return the first error of a chain."""
    for _ in range(10):
        before = error.__cause__
        if before is None:
            break
        error = before
    return error


def _reason(error: BaseException) -> str:
    """Return the reason of an OSError in few words."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return " ".join(str(error).split()) or type(error).__name__

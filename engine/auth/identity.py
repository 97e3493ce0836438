"""Identity of the client of a connection or request, as an authenticator established it. Pure."""

from dataclasses import dataclass, field
from typing import NamedTuple


class Evidence(NamedTuple):
    """Evidence by which a token was accepted, and whose end withdraws it.

    ``token_id``: see ``jws.token_id``. ``key_id`` stands for the key that verified it and the rules of its claims;
    empty for keys that an issuer publishes. ``level``, ``person`` and ``person_id`` are claims of tokens for gateways
    alone, empty or 0 otherwise.
    """

    token_id: str
    key_id: str = ""
    level: str = ""
    person: str = ""
    person_id: int = 0


@dataclass(frozen=True, slots=True)
class Identity:
    """The authenticated name of a client, and of the client it acts for.

    ``role`` is the authenticated name, None only where authentication is off. ``original`` is the role of the client on
    whose behalf a proxy acts; both roles are judged then. ``method`` is the name of the authentication method, such as
    ``token``. ``expires_at`` is the time at which the credentials end, in seconds since the Unix epoch on the clock
    seam's wall clock; None if they do not expire. ``original_method`` is the method by which the broker checked
    ``original`` itself; those credentials are then the ones that expire and are renewed. Empty where the proxy's word
    is taken. ``evidence`` is that of the client's token and of the original's, where they were checked; it does not
    count in comparisons, since it is not who the client is.
    """

    role: str | None
    original: str | None = None
    method: str = ""
    expires_at: float | None = None
    original_method: str = ""
    evidence: tuple[Evidence, ...] = field(default=(), compare=False, repr=False)

    @property
    def principal(self) -> str | None:
        """The role for which calls are made; None only where authentication is off."""
        return self.original or self.role

    @property
    def token_id(self) -> str:
        """Id of the token by which the client itself was identified; empty without one."""
        return self.evidence[0].token_id if self.evidence and self.method == "token" else ""


UNAUTHENTICATED = Identity(None)
"""The identity of every client where authentication is off."""

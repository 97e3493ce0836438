"""Removal of secrets from texts that leave the machine: values that are known, forms that secrets have, and names on
request (K5). Pure."""

import hashlib
import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

HIDDEN = "(hidden)"
KNOWN_MIN = 6
"""Length from which a known secret is searched in texts; a shorter one would hide parts of many words."""
_PEM = re.compile(r"-----BEGIN [A-Z0-9 ]+-----.*?(?:-----END [A-Z0-9 ]+-----|\Z)", re.DOTALL)
_FORMS = (
    # The arguments of an administrator's call in a broker's log: properties, schemas, policies.
    re.compile(r"(?<=\bargs=)[^\n]+"),
    # A JSON Web Token, whole or cut.
    re.compile(r"\beyJ[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*){0,2}"),
    # A user and password before the host of a URL.
    re.compile(r"(?<=://)[^/\s@\"']+(?=@)"),
    # The value of a header.
    re.compile(r"(?i)(?<=bearer )\S+|(?<=basic )[A-Za-z0-9+/=]{8,}"),
    re.compile(r"(?i)(?<=authorization: )[^\r\n\"']+|(?<=cookie: )[^\r\n\"']+"),
    # NAME=VALUE or "NAME": "VALUE" with a name of secrets.
    re.compile(
        r"(?i)(?<![a-z])[a-z0-9_.-]*(?:passw(?:or)?d|passphrase|secret|token|api_?key|private_?key|credentials?|"
        r"authparams|authentication_?parameters|session_?id|csrf\w*)[a-z0-9_.-]*[\"']?\s*[:=]\s*"
        r"(?:\"(?P<double>[^\"]+)\"|'(?P<single>[^']+)'|(?P<value>(?!\(hidden\))[^\s,;&\"'}\])]+))"
    ),
    # The parameters of Pulsar's token authentication.
    re.compile(r"(?<![\w/])token:(?P<value>[^\s\"',;]{8,})"),
)
_TOPIC = re.compile(r"(?P<domain>(?:non-)?persistent://)(?P<name>[^\s\"',;?)\]}]+)")
_MANAGED = re.compile(
    r"(?P<before>\b[\w.%~-]+/[\w.%~-]+)/(?P<domain>persistent)/(?P<name>[^\s\"',;?)\]}/]+)"
)
_LABEL = re.compile(
    r"(?P<key>\b(?:topic|subscription|namespace|tenant|consumer|producer|producer_name|consumer_name|cursor|role|user|"
    r"person|principal|by|bundle)=)(?P<quote>\"?)(?P<name>[^\s\"',}]+)"
)
_WORD = re.compile(r"[\w.%~-]+")
_PARTITION = re.compile(r"-partition-\d+$")
OWN_NAMES = frozenset({"public", "default", "pulsar", "system", "standalone", "functions"})
"""Names that every instance has: they are not hidden."""


@dataclass(frozen=True, slots=True)
class Redactor:
    """Redacts texts. ``known`` are values of secrets. With ``salt`` it hides names too, each by the same hash
    everywhere: where their place shows that they are names, and the known ``names`` as whole words."""

    known: tuple[str, ...] = ()
    salt: bytes = b""
    names: frozenset[str] = frozenset()
    _pattern: re.Pattern[str] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        long = sorted(
            {text for text in self.known if len(text) >= KNOWN_MIN}, key=len, reverse=True
        )
        if long:
            pattern = re.compile("|".join(map(re.escape, long)))
            object.__setattr__(self, "_pattern", pattern)

    def text(self, text: str) -> str:
        """Return the text without secrets, and without names where they are hashed."""
        if self._pattern is not None:
            text = self._pattern.sub(HIDDEN, text)
        text = _PEM.sub(HIDDEN, text)
        for form in _FORMS:
            text = form.sub(_hide, text)
        return self._names(text) if self.salt else text

    def name(self, name: str) -> str:
        """Return the name of a tenant, namespace, topic or subscription as the bundle shows it."""
        if not self.salt or not name or name in OWN_NAMES or name.startswith(("0x", "__")):
            return name
        match = _PARTITION.search(name)
        end = match[0] if match else ""
        base = name.removesuffix(end)
        digest = hmac.new(self.salt, base.encode(), hashlib.sha256).hexdigest()
        return f"n-{digest[:10]}{end}"

    def path(self, path: str) -> str:
        """Return a name of several parts with each part as ``name`` shows it."""
        return "/".join(
            part if part in ("persistent", "non-persistent") else self.name(part)
            for part in path.split("/")
        )

    def _names(self, text: str) -> str:
        text = _TOPIC.sub(lambda m: m["domain"] + self.path(m["name"]), text)
        text = _MANAGED.sub(
            lambda m: f"{self.path(m['before'])}/persistent/{self.name(m['name'])}", text
        )
        text = _LABEL.sub(self._label, text)
        return _WORD.sub(lambda m: self.name(m[0]) if m[0] in self.names else m[0], text)

    def _label(self, match: re.Match[str]) -> str:
        name = match["name"]
        shown = name if name.startswith(("persistent:", "non-persistent:")) else self.path(name)
        return f"{match['key']}{match['quote']}{shown}"


def _hide(match: re.Match[str]) -> str:
    """Replace the group of a match that has the value, or all of the match."""
    if match.lastgroup is None:
        return HIDDEN
    start, stop = match.span(match.lastgroup)
    return f"{match[0][: start - match.start()]}{HIDDEN}{match[0][stop - match.start() :]}"


def secrets_in(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the secrets in the contents of secret files and values: each whole, and each line of it."""
    known: dict[str, None] = {}
    for text in texts:
        for part in (text.strip(), *(line.strip() for line in text.splitlines())):
            for value in (part, part.partition(":")[2].strip()):
                if len(value) >= KNOWN_MIN:
                    known[value] = None
    return tuple(known)

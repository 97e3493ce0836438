"""Every parser of bytes from elsewhere."""

from tests.fuzz.disk import DISK
from tests.fuzz.frames import FRAMES
from tests.fuzz.identity.credentials import CREDENTIALS
from tests.fuzz.identity.handshakes import HANDSHAKES
from tests.fuzz.metadata import METADATA
from tests.fuzz.proxies import PROXIES
from tests.fuzz.schemas.messages import MESSAGES
from tests.fuzz.schemas.texts import TEXTS
from tests.fuzz.target import Target

TARGETS: tuple[Target, ...] = (
    *FRAMES,
    *DISK,
    *METADATA,
    *MESSAGES,
    *TEXTS,
    *CREDENTIALS,
    *HANDSHAKES,
    *PROXIES,
)

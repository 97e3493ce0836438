"""Every parser of bytes from elsewhere."""

from tests.fuzz.credentials import CREDENTIALS
from tests.fuzz.disk import DISK
from tests.fuzz.frames import FRAMES
from tests.fuzz.metadata import METADATA
from tests.fuzz.schemas.messages import MESSAGES
from tests.fuzz.schemas.texts import TEXTS
from tests.fuzz.target import Target

TARGETS: tuple[Target, ...] = (*FRAMES, *DISK, *METADATA, *MESSAGES, *TEXTS, *CREDENTIALS)

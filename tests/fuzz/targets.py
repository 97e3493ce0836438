"""Every parser of bytes from elsewhere."""

from tests.fuzz.disk import DISK
from tests.fuzz.frames import FRAMES
from tests.fuzz.messages import MESSAGES
from tests.fuzz.metadata import METADATA
from tests.fuzz.target import Target
from tests.fuzz.texts import TEXTS

TARGETS: tuple[Target, ...] = (*FRAMES, *DISK, *METADATA, *MESSAGES, *TEXTS)

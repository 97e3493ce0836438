"""Bodies of the type multipart/form-data, whose parts are not copied. Pure."""

from email.message import Message
from email.parser import HeaderParser
from mmap import mmap
from typing import NamedTuple

from engine.base.errors import InvalidField

FORM = "multipart/form-data"
PARTS_MAX = 16
HEAD_BYTES_MAX = 16 << 10


class Part(NamedTuple):
    """A part of a form. ``content_type`` is without parameters, in lower case; empty where none is stated."""

    name: str
    file_name: str
    content_type: str
    content: memoryview

    @property
    def text(self) -> str:
        """The content as text. Raises InvalidField."""
        try:
            return str(self.content, "utf-8")
        except UnicodeDecodeError as error:
            raise InvalidField(self.name, "is not UTF-8") from error


def is_form(content_type: str) -> bool:
    return content_type.partition(";")[0].strip().lower() == FORM


def parts_of(body: bytes | mmap, content_type: str) -> dict[str, Part]:
    """Return the parts of a form by name. Raises InvalidField for a body that is none, or has a name twice.

    ``content_type``: that of the request, with the boundary.
    """
    delimiter = _delimiter(content_type)
    view, parts = memoryview(body), dict[str, Part]()
    # The first delimiter may begin the body; the line end before others belongs to them.
    start = 0 if body[: len(delimiter) - 2] == delimiter[2:] else body.find(delimiter) + 2
    if start == 1:
        raise InvalidField("body", "has no part: its boundary is not in it")
    at = start + len(delimiter) - 2
    while body[at : at + 2] != b"--":
        begins = body.find(b"\r\n", at)  # blanks may follow a delimiter
        ends = body.find(b"\r\n\r\n", begins, begins + HEAD_BYTES_MAX)
        after = body.find(delimiter, ends + 2)
        if begins < 0 or ends < 0 or after < 0:
            raise InvalidField("body", "ends within a part")
        part = _part(body[begins + 2 : ends], view[min(ends + 4, after) : after])
        if part.name in parts:
            raise InvalidField(part.name, "is given twice")
        parts[part.name] = part
        if len(parts) > PARTS_MAX:
            raise InvalidField("body", f"must have at most {PARTS_MAX} parts")
        at = after + len(delimiter)
    return parts


def _delimiter(content_type: str) -> bytes:
    """Return the line end and boundary before each part. Raises InvalidField."""
    header = Message()
    header["Content-Type"] = content_type
    boundary = header.get_boundary()
    if not is_form(content_type) or not boundary or len(boundary) > 200:
        raise InvalidField("Content-Type", f"must be {FORM} with a boundary")
    try:
        return b"\r\n--" + boundary.encode("latin-1")
    except UnicodeEncodeError as error:
        raise InvalidField("Content-Type", "has an invalid boundary") from error


def _part(head: bytes, content: memoryview) -> Part:
    header = HeaderParser().parsestr(head.decode(errors="replace"))
    name = header.get_param("name", header="Content-Disposition")
    if not isinstance(name, str) or not name.strip():
        raise InvalidField("body", "has a part without a name")
    kind = header.get("Content-Type", "").partition(";")[0].strip().lower()
    return Part(name.strip(), header.get_filename() or "", kind, content)

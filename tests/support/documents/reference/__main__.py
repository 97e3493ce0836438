"""``python -m tests.support.documents.reference``: write the generated pages of docs/reference. With ``--check``: fail
when one of them is out of date."""

import os
import sys
from collections.abc import Sequence

from tests.support.documents.pages import ROOT

FOLDER = ROOT / "docs" / "reference"
COMMAND = "python -m tests.support.documents.reference"


def texts() -> dict[str, str]:
    """Return the generated pages by file name."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway.settings")
    import django

    from tests.support.documents.reference import command_page, console_page, rest_page

    django.setup()
    return {
        "command-line.md": command_page.page(),
        "console-api.md": console_page.page(),
        "rest.md": rest_page.page(),
    }


def out_of_date() -> list[str]:
    """Return the names of the pages whose text would change."""
    return [
        name
        for name, text in texts().items()
        if not (FOLDER / name).exists() or (FOLDER / name).read_text() != text
    ]


def main(arguments: Sequence[str]) -> int:
    if arguments == ["--check"]:
        stale = out_of_date()
        if stale:
            print(f"out of date: {', '.join(stale)}. Run {COMMAND}", file=sys.stderr)
        return 1 if stale else 0
    if arguments:
        print(f"usage: {COMMAND} [--check]", file=sys.stderr)
        return 2
    for name, text in texts().items():
        (FOLDER / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

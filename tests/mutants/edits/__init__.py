"""The list of edits: those of all modules below this folder. docs/mutants.md says what belongs into it."""

from importlib import import_module
from pathlib import Path

from tests.mutants.edit import Edit

_FOLDER = Path(__file__).parent

EDITS: tuple[Edit, ...] = tuple(
    edit
    for file in sorted(_FOLDER.rglob("[!_]*.py"))
    for edit in import_module(
        ".".join((__name__, *file.relative_to(_FOLDER).with_suffix("").parts))
    ).EDITS
)

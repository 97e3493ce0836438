"""The loader by a program of two groups: which source counts, what of the world's text is a value, what is unknown."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from engine.base.settings import (
    PRIVATE,
    Program,
    SettingsError,
    check_ranges,
    count,
    flag,
    folder,
    maybe_port,
    number,
    port,
    text,
)


@dataclass(frozen=True, slots=True)
class Shared:
    level: str = text("low", "how much", choices=("low", "high"))
    main_port: int = port(7000, "the port")
    data_dir: Path = folder("data", "where")


@dataclass(frozen=True, slots=True)
class Own:
    """``made`` is no setting."""

    made: int = 5
    files_max: int = count(10, "how many", low=1, high=20)
    wait_s: float = number(0.5, "how long", low=0.1, high=5)
    eager: bool = flag(False, "whether")
    side_port: int | None = maybe_port("another")
    other: str = text("", "its own name is another", name="org_name")


@dataclass(frozen=True, slots=True)
class Everything:
    shared: Shared
    own: Own = field(metadata=PRIVATE)


WORKER = Program("worker", Everything)


def loaded(
    tmp_path: Path, file: str = "", given: dict[str, Any] | None = None, **environ: str
) -> Everything:
    (tmp_path / "magnetar.toml").write_text(file)
    variables = {f"MAGNETAR_{name}": value for name, value in environ.items()}
    return WORKER.load(variables, tmp_path, given or {})


def test_the_command_line_goes_before_environment_table_top_and_default(tmp_path: Path) -> None:
    found = loaded(
        tmp_path,
        'main_port = 1\nlevel = "high"\nfiles_max = 19\n[worker]\nmain_port = 2\nwait_s = 2\neager = true\n',
        {"main_port": "4", "files_max": None},
        MAIN_PORT="3",
        WORKER_WAIT_S="0.25",
        WORKER_ORG_NAME="x",
        FILES_MAX="18",
    )
    assert found.shared == Shared("high", 4)
    assert found.own == Own(wait_s=0.25, eager=True, other="x")  # files_max is its own alone


def test_the_offset_moves_ports_that_are_not_given(tmp_path: Path) -> None:
    assert loaded(tmp_path, "port_offset = 10").shared.main_port == 7010
    found = loaded(tmp_path, "main_port = 1", PORT_OFFSET="10", WORKER_SIDE_PORT="9")
    assert (found.shared.main_port, found.own.side_port) == (1, 9)
    assert loaded(tmp_path, PORT_OFFSET="10").own.side_port is None


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"LEVEL": "deep"}, "level must be one of low, high, not 'deep' (from MAGNETAR_LEVEL)"),
        ({"MAIN_PORT": ""}, "main_port must be a whole number from 1 to 65535, not ''"),
        ({"DATA_DIR": ""}, "data_dir must be the name of a folder, not ''"),
        ({"PORT_OFFSET": "60000"}, "main_port must be .* not 67000 (from port_offset 60000)"),
        ({"WORKER_FILES_MAX": "21"}, "files_max must be a whole number from 1 to 20, not '21'"),
        ({"WORKER_WAIT_S": "nan"}, "wait_s must be a number from 0.1 to 5, not 'nan'"),
        ({"WORKER_EAGER": "perhaps"}, "eager must be true or false, not 'perhaps'"),
        ({"WORKER_FILE_MAX": "5"}, "MAGNETAR_WORKER_FILE_MAX, did you mean MAGNETAR_WORKER_FILES_"),
        ({"CONFIG": "none.toml"}, "MAGNETAR_CONFIG names .*none.toml, which is missing"),
    ],
)
def test_what_a_variable_must_not_say(environ: dict[str, str], words: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=words.replace("(", "[(]").replace(")", "[)]")):
        loaded(tmp_path, **environ)


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("[worker]\nlevel = 1", "level must be one of low, high, not 1"),
        ("[worker]\nfiles_max = true", "files_max must be a whole number from 1 to 20, not True"),
        ("[worker]\nfiles_max = 1.5", "files_max must be a whole number from 1 to 20, not 1.5"),
        ("[worker]\neager = 1", "eager must be true or false, not 1"),
        (
            "[worker]\norg_name = 1",
            "org_name must be text, not 1 .from .worker. of .*magnetar.toml",
        ),
        ("[worker]\nmade = 1", "unknown setting made in .worker. of .*magnetar.toml"),
        ("[worker]\nother = 'x'", "unknown setting other"),
        ("main_prot = 1", "unknown setting main_prot in .*, did you mean main_port"),
        ("worker = 1", "must be a table"),
        ("worker", "cannot read"),
    ],
)
def test_what_the_file_must_not_say(file: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=words) as refused:
        loaded(tmp_path, file)
    assert "\n" not in str(refused.value)


def test_unknown_keys_at_the_top_are_refused_by_who_knows_the_others(tmp_path: Path) -> None:
    (tmp_path / "magnetar.toml").write_text("theirs = 1\n[theirs_too]\nx = 1\n")
    WORKER.load({}, tmp_path)
    Program("worker", Everything, frozenset({"theirs"})).load({}, tmp_path)
    with pytest.raises(SettingsError, match="unknown setting theirs in"):
        Program("worker", Everything, frozenset()).load({}, tmp_path)


def test_groups_made_in_code_have_the_same_ranges() -> None:
    check_ranges(Own())
    with pytest.raises(SettingsError, match="files_max must be a whole number from 1 to 20, not 0"):
        check_ranges(Own(files_max=0))

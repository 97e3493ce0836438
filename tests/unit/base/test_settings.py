"""The loader, by a program of two groups: precedence of sources, parsing of values, unknown settings."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from engine.base.errors import MisuseError
from engine.base.settings import (
    PRIVATE,
    Program,
    SettingsError,
    check_ranges,
    count,
    default_data_folder,
    flag,
    folder,
    internal,
    live,
    maybe_port,
    number,
    page,
    port,
    secret,
    settings_of,
    size,
    text,
)


@dataclass(frozen=True, slots=True)
class Shared:
    """Settings of several programs."""

    level: str = text("low", "how much", choices=("low", "high"))
    main_port: int = port(7000, "the port")
    room_bytes: int = size(4 << 20, "how large (roomSizeInMB)", low=1024)
    data_dir: Path = folder("data", "where")


@dataclass(frozen=True, slots=True)
class Own:
    """Settings of one program."""

    made: int = internal(5)
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
    settings = loaded(
        tmp_path,
        'main_port = 1\nlevel = "high"\nfiles_max = 19\n[worker]\nmain_port = 2\nwait_s = 2\neager = true\n',
        {"main_port": "4", "files_max": None},
        MAIN_PORT="3",
        WORKER_WAIT_S="0.25",
        WORKER_ORG_NAME="x",
        FILES_MAX="18",
    )
    assert settings.shared == Shared("high", 4)
    assert settings.own == Own(wait_s=0.25, eager=True, other="x")  # files_max is its own alone


def test_the_offset_moves_ports_that_are_not_given(tmp_path: Path) -> None:
    assert loaded(tmp_path, "port_offset = 10").shared.main_port == 7010
    settings = loaded(tmp_path, "main_port = 1", PORT_OFFSET="10", WORKER_SIDE_PORT="9")
    assert (settings.shared.main_port, settings.own.side_port) == (1, 9)
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
def test_invalid_environment_variables_are_refused(
    environ: dict[str, str], words: str, tmp_path: Path
) -> None:
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
def test_invalid_settings_files_are_refused(file: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=words) as refused:
        loaded(tmp_path, file)
    assert "\n" not in str(refused.value)


def test_unknown_top_level_keys_are_refused_by_a_program_that_knows_all_others(
    tmp_path: Path,
) -> None:
    (tmp_path / "magnetar.toml").write_text("theirs = 1\n[theirs_too]\nx = 1\n")
    WORKER.load({}, tmp_path)
    Program("worker", Everything, frozenset({"theirs"})).load({}, tmp_path)
    with pytest.raises(SettingsError, match="unknown setting theirs in"):
        Program("worker", Everything, frozenset()).load({}, tmp_path)


def test_groups_made_in_code_have_the_same_ranges() -> None:
    check_ranges(Own())
    with pytest.raises(SettingsError, match="files_max must be a whole number from 1 to 20, not 0"):
        check_ranges(Own(files_max=0))


def test_a_field_that_is_not_declared_is_refused() -> None:
    @dataclass(frozen=True)
    class Sloppy:
        plain: int = 5

    with pytest.raises(MisuseError, match=r"Sloppy\.plain is neither a setting nor internal"):
        list(settings_of(Sloppy, "worker", False))


def test_the_page_has_what_several_programs_read_once_and_the_rest_by_program() -> None:
    @dataclass(frozen=True)
    class Other:
        shared: Shared

    text_of_page = page([WORKER, Program("other", Other)])
    shared, _, worker = text_of_page.partition("## worker")
    assert "Read by worker, other." in shared
    assert "| `level` | `low` | low, high | how much | `MAGNETAR_LEVEL` |" in shared
    assert (
        "| `main_port` | 7000 + port_offset | 1 to 65535 | the port | `MAGNETAR_MAIN_PORT` |"
        in shared
    )
    assert (
        "| `room_bytes` | 4 MiB | 1024 to 1125899906842624 | how large (roomSizeInMB) |" in shared
    )
    assert "Settings of one program." in worker
    assert "| `wait_s` | 0.5 | 0.1 to 5 | how long | `MAGNETAR_WORKER_WAIT_S` |" in worker
    assert "| `side_port` | none | 1 to 65535 | another | `MAGNETAR_WORKER_SIDE_PORT` |" in worker
    assert "| `org_name` | empty | text |" in worker
    assert "made" not in worker
    assert "## other" not in text_of_page


@dataclass(frozen=True, slots=True)
class Changing:
    """Settings of which one is live."""

    rate: int = live(count(5, "how many (theRate)", high=9))
    name: str = text("", "what (of anything) it is called")


def test_a_live_setting_is_marked_and_has_the_name_of_pulsars_setting() -> None:
    rate, name = settings_of(Changing, "one", False)
    assert (rate.is_live, rate.pulsar_name, rate.read("7")) == (True, "theRate", 7)
    assert (name.is_live, name.pulsar_name) == (False, "")
    assert Changing().rate == 5
    assert rate.meaning == "how many (theRate); *live*"
    with pytest.raises(SettingsError, match="rate must be a whole number from 0 to 9"):
        rate.read("10")


@dataclass(frozen=True, slots=True)
class Secretive:
    """Settings of which one is secret."""

    key: str = secret("signs (theKey)")


def test_the_value_of_a_secret_setting_is_not_shown() -> None:
    [key] = settings_of(Secretive, "one", False)
    assert key.is_secret
    assert key.meaning == "signs (theKey); *secret*"
    assert "right" not in repr(Secretive("right"))
    with pytest.raises(SettingsError, match=r"key must be text, not \*{8}$"):
        key.read(5)


def test_an_installed_wheel_keeps_its_data_where_the_user_may_write() -> None:
    wheel = Path("/venv/lib/python3.11/site-packages/magnetar/lib")
    home = {"HOME": "/home/ann"}
    assert default_data_folder(home, wheel) == Path("/home/ann/.local/share/magnetar")
    assert default_data_folder({**home, "XDG_DATA_HOME": "/d"}, wheel) == Path("/d/magnetar")
    # A relative path is invalid by the specification of these variables.
    relative = {**home, "XDG_DATA_HOME": "d"}
    assert default_data_folder(relative, wheel) == default_data_folder(home, wheel)


def test_a_checkout_keeps_its_data_in_itself() -> None:
    assert default_data_folder({}, Path("/src/magnetar")) == Path("/src/magnetar/data")

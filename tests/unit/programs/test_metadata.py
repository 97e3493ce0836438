"""The command line of the metadata server, and its hold on the data folder."""

import os
from pathlib import Path

import pytest

from engine.base.settings import SettingsError
from engine.metadata.server.settings import MetadataProgramSettings
from engine.programs import metadata
from engine.programs.process import StartError


def loaded(directory: Path, *argv: str, **environ: str) -> MetadataProgramSettings:
    return metadata.load(metadata._parse(argv), environ, directory)


def test_the_command_line_precedes_the_environment(tmp_path: Path) -> None:
    settings = loaded(
        tmp_path,
        *("--data-dir", "d", "--port", "7"),
        MAGNETAR_METADATA_SERVER_PORT="8",
        MAGNETAR_METADATA_SERVER_TICK_TIME_MS="50",
    )
    assert settings.server.data_dir == os.path.abspath("d")
    assert (settings.server.port, settings.server.tick_time_ms) == (7, 50)


def test_a_missing_folder_and_a_misspelt_variable_are_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="give --data-dir"):
        loaded(tmp_path)
    with pytest.raises(SettingsError, match="did you mean MAGNETAR_METADATA_SERVER_PORT"):
        loaded(tmp_path, "--data-dir", "d", MAGNETAR_METADATA_SERVER_PORTS="8")


def test_a_folder_is_private_and_used_by_one_process(tmp_path: Path) -> None:
    folder = tmp_path / "md"
    folder.mkdir(mode=0o755)
    with metadata._locked(str(folder)):
        assert folder.stat().st_mode & 0o777 == 0o700
        with (
            pytest.raises(StartError, match="another process uses the folder"),
            metadata._locked(str(folder)),
        ):
            raise AssertionError
    with metadata._locked(str(folder)):
        pass


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(StartError, match="cannot use the folder"),
        metadata._locked(str(tmp_path / "file" / "md")),
    ):
        raise AssertionError

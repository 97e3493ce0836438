"""Packages: files, wheels and archives, their requirements, and what is refused."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from engine.functions.runtime import unpacking
from engine.functions.runtime.errors import InstanceError
from engine.functions.runtime.unpacking import Unpacker


def archive(path: Path, **files: str) -> Path:
    with zipfile.ZipFile(path, "w") as made:
        for name, text in files.items():
            made.writestr(name, text)
    return path


def wheel(path: Path, name: str, value: int) -> Path:
    info = f"{name}-1.0.dist-info"
    made = path / f"{name}-1.0-py3-none-any.whl"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
    tag = "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    return archive(
        made,
        **{
            f"{name}.py": f"VALUE = {value}\n",
            f"{info}/METADATA": metadata,
            f"{info}/WHEEL": tag,
            f"{info}/RECORD": f"{name}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n",
        },
    )


def imported(paths: list[str], expression: str) -> str:
    code = f"import sys; sys.path[:0] = {paths!r}; {expression}"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, check=True)
    return done.stdout.decode().strip()


def test_a_file_is_copied_under_its_name(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text("VALUE = 1")
    paths = Unpacker(tmp_path / "envs").unpack(tmp_path / "code.py", tmp_path / "f")
    assert imported(paths, "import code; print(code.VALUE)") == "1"


def test_an_archive_brings_its_sources_and_wheels_and_needs_no_network(tmp_path: Path) -> None:
    inside = wheel(tmp_path, "users_dep", 42).read_bytes()
    package = tmp_path / "fn.zip"
    with zipfile.ZipFile(package, "w") as made:
        made.writestr("fn/src/users_fn.py", "import users_dep\nVALUE = users_dep.VALUE\n")
        made.writestr("fn/requirements.txt", "users_dep==1.0\n")
        made.writestr("fn/deps/users_dep-1.0-py3-none-any.whl", inside)
    unpacker = Unpacker(tmp_path / "envs")
    paths = unpacker.unpack(package, tmp_path / "f")
    assert imported(paths, "import users_fn; print(users_fn.VALUE)") == "42"
    again = unpacker.unpack(package, tmp_path / "g")
    assert again[-1] == paths[-1], "equal requirements are installed once"


def test_requirements_without_wheels_say_what_to_do(tmp_path: Path) -> None:
    package = archive(tmp_path / "fn.zip", **{"requirements.txt": "surely-not-here-at-all==1\n"})
    with pytest.raises(InstanceError, match=r"put wheels into deps/"):
        Unpacker(tmp_path / "envs").unpack(package, tmp_path / "f")
    left = [path.name for path in (tmp_path / "envs").iterdir() if path.name != "cache"]
    assert not [name for name in left if name.endswith(".new")]


def test_a_wheel_is_the_code_itself(tmp_path: Path) -> None:
    paths = Unpacker(tmp_path / "envs").unpack(wheel(tmp_path, "users_wheel", 5), tmp_path / "f")
    assert imported(paths, "import users_wheel; print(users_wheel.VALUE)") == "5"


def test_no_name_of_an_archive_leads_out_of_its_folder(tmp_path: Path) -> None:
    package = archive(
        tmp_path / "fn.zip", **{"../out.py": "", "/etc/out.py": "", "a/../../out.py": ""}
    )
    Unpacker(tmp_path / "envs").unpack(package, tmp_path / "f" / "code")
    inside = set(tmp_path.rglob("out.py"))
    assert inside
    assert all(path.is_relative_to(tmp_path / "f" / "code") for path in inside)


@pytest.mark.parametrize(
    ("name", "text"), [("fn.nar", "a .py, .zip or .whl"), ("fn.zip", "cannot be unpacked")]
)
def test_another_file_is_refused(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_bytes(b"nothing")
    with pytest.raises(InstanceError, match=text):
        Unpacker(tmp_path / "envs").unpack(tmp_path / name, tmp_path / "f")


def test_an_archive_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpacking, "UNPACKED_BYTES_MAX", 10)
    package = archive(tmp_path / "fn.zip", **{"big.py": "x" * 11})
    with pytest.raises(InstanceError, match="11 bytes in 1 files unpacked, more than 10 bytes"):
        Unpacker(tmp_path / "envs").unpack(package, tmp_path / "f")

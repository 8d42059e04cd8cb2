"""A plain `pip install .` gives a working `faultcast`: templates, migrations and console inside."""

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("agent", "channels", "master", "notifier", "templates")
LOCKS = ("requirements.lock", "requirements-dev.lock")
LIMIT_S = 120


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, so that the build leaves nothing in the tree."""
    copy, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in PACKAGES:
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy / name)
    build = ["wheel", "-q", "--no-deps", "--no-build-isolation", "--no-index", "-w", out, copy]
    subprocess.run([sys.executable, "-m", "pip", *build], check=True, timeout=LIMIT_S)
    (built,) = out.glob("faultcast-*.whl")
    return built


def source_files() -> set[str]:
    """Whatever the packages hold; compiled files apart."""
    paths = (path for name in PACKAGES for path in (ROOT / name).rglob("*") if path.is_file())
    return {str(path.relative_to(ROOT)) for path in paths if "__pycache__" not in path.parts}


def test_the_wheel_holds_every_file_of_the_packages(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert source_files() - packed == set()
    assert {name.partition("/")[0] for name in packed} == set(PACKAGES)


def test_the_wheel_names_its_licence_and_no_torch(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        metadata = archive.read(name).decode()
    assert "License-Expression: Apache-2.0" in metadata
    assert "Requires-Python: >=3.11" in metadata
    assert "torch" not in "".join(re.findall(r"^Requires-Dist: .*$", metadata, re.MULTILINE))


def test_the_installed_command_works_away_from_the_source(wheel: Path, tmp_path: Path) -> None:
    """Installed into a folder of its own; the dependencies are this environment's."""
    target = tmp_path / "installed"
    install = ["install", "-q", "--no-deps", "--no-index", "--target", target, wheel]
    subprocess.run([sys.executable, "-m", "pip", *install], check=True, timeout=LIMIT_S)
    env = {"PYTHONPATH": str(target), "FAULTCAST_DATA_DIR": str(tmp_path / "data"), "PATH": "/usr/bin:/bin"}
    shown = subprocess.run(
        [sys.executable, "-P", "-c", "import master, templates; print(master.__file__, templates.__file__)"],
        cwd=tmp_path, env=env, check=True, capture_output=True, text=True, timeout=LIMIT_S,
    )  # fmt: skip
    assert shown.stdout.count(str(target)) == 2
    done = subprocess.run(
        [sys.executable, "-P", target / "bin" / "faultcast", "migrate"],
        cwd=tmp_path, env=env, check=False, capture_output=True, text=True, timeout=LIMIT_S,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("the database is at revision ")


@pytest.mark.parametrize("name", LOCKS)
def test_the_lock_pins_and_hashes_everything_and_names_no_place(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    for block in re.split(r"\n(?=\S)", text.strip()):
        assert re.match(r"[a-z0-9._-]+==\S+", block), block
        assert "--hash=sha256:" in block, block
    assert "://" not in text
    assert not re.search(r"^\s*--(?!hash)", text, re.MULTILINE)


@pytest.mark.parametrize("name", LOCKS)
def test_the_lock_holds_every_dependency(name: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = list(project["project"]["dependencies"])
    if name == "requirements-dev.lock":
        wanted += project["dependency-groups"]["dev"]
    names = {re.split(r"[\[<>=; ]", one)[0].lower().replace("_", "-") for one in wanted}
    locked = set(re.findall(r"^([a-z0-9._-]+)==", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE))
    assert names - locked == set()

"""The package as it is installed, and as it runs in a checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import httpx
import orjson
import pytest

from tests.support.folders import make_sillytavern, tree
from tests.system.conftest import READY
from valuetracker.settings import PREFIX

CHECKOUT = Path(__file__).resolve().parent.parent.parent
PLACES = (
    "import valuetracker; from valuetracker.engine.migrations import migrations_directory;"
    "from valuetracker.bridge.install.bundle import bundle_directory;"
    "from valuetracker.http.pages import FOLDER;"
    "print(valuetracker.__file__); print(migrations_directory()); print(bundle_directory());"
    "print(FOLDER)"
)


def run(*command: str, cwd: Path) -> str:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder), cwd=CHECKOUT)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with our wheel and the dependencies of this one."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    packages = Path(
        run(str(python), "-c", "import site; print(site.getsitepackages()[0])", cwd=folder).strip()
    )
    # The pip of this environment installs into the other one, which needs none itself.
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python))
    run(*pip, "install", "--quiet", "--no-deps", "--no-index", str(wheel), cwd=folder)
    # Behind our own on the path, and its own .pth files, one of which leads to the
    # checkout, are not read.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


@pytest.fixture
def empty_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "empty"
    folder.mkdir()
    return folder


def test_the_wheel_contains_the_package_with_all_it_needs_and_no_tests(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()

    sources = {
        f"valuetracker/{path.relative_to(CHECKOUT).as_posix()}"
        for path in (CHECKOUT / "migrations").rglob("*.sql")
    }
    modules = {
        path.relative_to(CHECKOUT).as_posix()
        for path in (CHECKOUT / "valuetracker").rglob("*")
        if path.suffix in (".py", ".md", ".json", ".css", ".js")
    }
    shipped = {
        f"valuetracker/{path.relative_to(CHECKOUT).as_posix()}"
        for path in (CHECKOUT / "sillytavern").rglob("*.js*")
        if "node_modules" not in path.parts
    }
    assert sources <= set(names)
    assert modules <= set(names)
    assert "valuetracker/inspector/index.html" in names, "`make .cache/inspector/ready`"
    assert "valuetracker/inspector/index.html.gz" in names
    assert not [name for name in names if "node_modules" in name]
    assert shipped <= set(names)
    assert "valuetracker/sillytavern/plugin/package.json" in shipped
    assert "valuetracker/sillytavern/extension/manifest.json" in shipped
    assert not [name for name in names if "tests/" in name or "__pycache__" in name]


def test_the_files_of_the_package_come_from_the_wheel(installed: Path, empty_folder: Path) -> None:
    places = run(str(installed), "-c", PLACES, cwd=empty_folder).splitlines()
    package, migrations, bundle, inspector = places
    path = run(str(installed), "-c", "import sys; print(*sys.path, sep='\\n')", cwd=empty_folder)

    assert Path(package).is_relative_to(installed.parent.parent)
    assert str(CHECKOUT) not in path.splitlines()
    assert path.splitlines()[-1] == sysconfig.get_path("purelib")
    assert Path(migrations) == Path(package).parent / "migrations"
    assert list(Path(migrations).rglob("*.sql"))
    assert Path(bundle) == Path(package).parent / "sillytavern"
    assert Path(inspector) == Path(package).parent / "inspector"
    for built in (CHECKOUT / "valuetracker/inspector").iterdir():
        assert (Path(inspector) / built.name).read_bytes() == built.read_bytes()


def test_the_installed_program_installs_into_sillytavern(
    installed: Path, empty_folder: Path
) -> None:
    sillytavern = make_sillytavern(empty_folder / "SillyTavern")
    before = tree(sillytavern)
    program = str(installed.with_name("valuetracker"))

    run(program, "sillytavern", "install", str(sillytavern), "--enable-plugins", cwd=empty_folder)
    record = orjson.loads((sillytavern / "plugins/valuetracker/installed.json").read_bytes())
    for name in ("plugin/package.json", "extension/manifest.json"):
        part, _, file = name.partition("/")
        folder = "plugins" if part == "plugin" else "public/scripts/extensions/third-party"
        found = (sillytavern / folder / "valuetracker" / file).read_bytes()
        assert found == (CHECKOUT / "sillytavern" / name).read_bytes()
    run(program, "sillytavern", "uninstall", str(sillytavern), cwd=empty_folder)

    assert Path(record["python"]) == installed
    assert tree(sillytavern) == before


def test_the_installed_program_serves(installed: Path, empty_folder: Path) -> None:
    process = subprocess.Popen(
        [str(installed.with_name("valuetracker")), "serve", "--port", "0"],
        cwd=empty_folder,
        env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        found = READY.fullmatch(process.stdout.readline())
        assert found
        headers = {"x-extension-id": "demo"}
        with httpx.Client(base_url=found[1] + PREFIX, headers=headers, timeout=60) as client:
            assert client.post("/register", json={"extensionId": "demo"}).status_code == 200
            client.post("/instances", json={"id": "i", "characterId": "c"})
            client.post("/instances/i/data", json={"key": "k", "value": "v"})
            assert client.get("/instances/i/data").json() == {"k": "v"}
            assert client.get("/openapi.json").status_code == 200
            assert "main-" in client.get("/inspector/").text
        process.terminate()
        assert process.wait(60) == 0
        assert process.stdout.read() == ""
    finally:
        process.kill()
        process.wait(60)
        assert process.stdout is not None
        process.stdout.close()

    assert (empty_folder / "db" / "demo.db").exists()


def test_the_installed_program_has_the_reference(installed: Path, empty_folder: Path) -> None:
    run(str(installed.with_name("valuetracker")), "docs", "--write", "API.md", cwd=empty_folder)

    assert (empty_folder / "API.md").read_bytes() == (CHECKOUT / "API.md").read_bytes()


def test_the_command_is_among_the_entry_points(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [each for each in archive.namelist() if each.endswith("entry_points.txt")]
        text = archive.read(name).decode()

    assert "valuetracker = valuetracker.cli.main:main" in text


def test_a_checkout_uses_its_own_files(empty_folder: Path) -> None:
    places = run(sys.executable, "-c", PLACES, cwd=empty_folder).splitlines()
    package, migrations, bundle, inspector = places

    assert Path(package) == CHECKOUT / "valuetracker" / "__init__.py"
    assert Path(migrations) == CHECKOUT / "migrations"
    assert Path(bundle) == CHECKOUT / "sillytavern"
    assert Path(inspector) == CHECKOUT / "valuetracker" / "inspector"

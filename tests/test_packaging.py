import email
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import lcm_core
import pytest
import trove_classifiers
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from lcm_tui.cli.reference import man_page
from tests.support import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCK = (ROOT / "requirements.lock").read_text()
PINNED = {
    canonicalize_name(name): version
    for name, version in re.findall(r"^([A-Za-z0-9._-]+)(?:\[[^]]*\])?==([^\s;\\]+)", LOCK, re.MULTILINE)
}
RUNTIME = [Requirement(text) for text in PROJECT["project"]["dependencies"]]
DEVELOPMENT = [Requirement(text) for text in PROJECT["dependency-groups"]["dev"]]
BUILD = [Requirement(text) for text in PROJECT["build-system"]["requires"]]
IMPORT_PACKAGES = {
    "lcm_tui": "lcm_tui",
    **{name: f"core/{name}" for name in ("lcm_core", "lcm_host", "lcm_recall", "lcm_remnic")},
    "lcm_prompts": "prompts/lcm_prompts",
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.mark.long
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="only a checkout knows its files")
def test_the_source_distribution_holds_what_make_test_needs(tmp_path: Path):
    """Every file of the repository: tests look at pages, pictures and the files of the environment too."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (built,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(built) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split("\0")
    assert inside == {*filter(None, listed), "PKG-INFO"}


@pytest.mark.long
def test_the_wheel_holds_the_packages_and_all_of_their_files(wheel: Path):
    names = zipfile.ZipFile(wheel).namelist()
    inside = {re.sub(r"^[^/]+\.data/data/", "", name) for name in names if ".dist-info/" not in name}
    source = {
        f"{package}/{path.relative_to(ROOT / folder).as_posix()}"
        for package, folder in {**IMPORT_PACKAGES, "share": "share"}.items()
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert inside == source
    assert {f"{package}/py.typed" for package in IMPORT_PACKAGES} <= inside
    assert {"lcm_tui/data/demo.db.gz", "lcm_tui/data/demo-home.tar.gz"} <= inside


def test_the_man_page_and_the_completions_are_current():
    files = {
        "man/man1/lcm-tui.1": man_page(),
        "bash-completion/completions/lcm-tui": completion_script("bash"),
        "zsh/site-functions/_lcm-tui": completion_script("zsh"),
        "fish/vendor_completions.d/lcm-tui.fish": completion_script("fish"),
    }
    assert {name: (ROOT / "share" / name).read_text() for name in files} == files, "make reference"


def completion_script(shell: str) -> str:
    command = [sys.executable, "-m", "lcm_tui", "--completion", shell]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_the_wheel_carries_the_licence_and_the_command(wheel: Path):
    with zipfile.ZipFile(wheel) as archive:
        metadata = {name.partition(".dist-info/")[2]: name for name in archive.namelist()}
        assert "licenses/LICENSE" in metadata
        assert "lcm-tui = lcm_tui.__main__:main" in archive.read(metadata["entry_points.txt"]).decode()


def test_the_demonstration_unpacks_from_the_wheel_alone(wheel: Path, tmp_path: Path):
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    script = (
        "import sys, pathlib, lcm_tui.cli.demo as demo\n"
        "assert demo.__file__.startswith(sys.argv[1]), demo.__file__\n"
        "print(demo.unpack_demo(pathlib.Path(sys.argv[2])).database)"
    )
    run = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "installed"), str(tmp_path / "demo")],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "installed")},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert Path(run.stdout.strip()).stat().st_size == 3_756_032


def test_the_long_description_links_to_the_repository_with_absolute_addresses(wheel: Path):
    repository = PROJECT["tool"]["hatch"]["metadata"]["hooks"]["custom"]["repository"]
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = email.message_from_bytes(archive.read(name))
    addresses = dict(line.split(", ") for line in metadata.get_all("Project-URL", []))
    assert addresses.keys() == {"Repository", "Documentation", "Changelog", "Issues"}
    assert all(address.startswith(repository) for address in addresses.values())
    text = metadata.get_payload()
    readme = (ROOT / "README.md").read_text()
    links = re.findall(r"(!?)\[[^\]]*\]\(([^)]+)\)", text)
    assert len(links) == len(re.findall(r"\]\(", readme)) > 20
    for picture, address in links:
        below, _, path = address.removeprefix(f"{repository}/").partition("/main/")
        assert below == ("raw" if picture else "blob"), address
        assert (ROOT / path.partition("#")[0]).exists(), address


def test_the_classifiers_are_known_and_claim_only_the_versions_that_were_tried():
    given = PROJECT["project"]["classifiers"]
    assert set(given) <= trove_classifiers.classifiers
    page = (ROOT / "docs" / "faq.md").read_text()
    (tried,) = re.findall(r"^\| Python \| (.*) \|$", page, re.MULTILINE)
    claimed = {name.rpartition(" ")[2] for name in given if re.search(r":: 3\.\d+$", name)}
    assert claimed == set(re.findall(r"(3\.\d+)(?:\.\d+)?(?:: all| and)", tried))


@pytest.mark.parametrize("requirement", RUNTIME, ids=lambda requirement: requirement.name)
def test_every_runtime_dependency_has_a_range_unless_its_versions_are_dates(requirement: Requirement):
    operators = {specifier.operator for specifier in requirement.specifier}
    assert operators & {">=", ">"}
    assert bool(operators & {"<", "<="}) == (requirement.name != "regex")


WINDOWS = "import sys; sys.modules['fcntl'] = None; from lcm_tui.__main__ import main; sys.exit(main())"


@pytest.mark.parametrize(
    ("arguments", "code", "printed", "refused"),
    [
        (["--version"], 0, f"lcm-tui {lcm_core.__version__}\n", ""),
        (
            ["status"],
            9,
            "",
            "lcm-tui needs POSIX locks: run it on Linux or macOS, on Windows inside WSL.\n",
        ),
    ],
)
def test_without_posix_locks_it_says_what_it_needs(
    arguments: list[str], code: int, printed: str, refused: str
):
    done = subprocess.run(
        [sys.executable, "-c", WINDOWS, *arguments], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (code, printed, refused)


@pytest.mark.parametrize(
    "requirement", [*RUNTIME, *DEVELOPMENT, *BUILD], ids=lambda requirement: requirement.name
)
def test_the_lock_pins_what_the_project_asks_for(requirement: Requirement):
    assert requirement.specifier.contains(PINNED[canonicalize_name(requirement.name)])


def test_the_lock_gives_hashes_for_everything_and_names_no_index():
    blocks = re.split(r"\n(?=[A-Za-z0-9])", LOCK.partition("make lock\n")[2].strip())
    assert len(blocks) == len(PINNED)
    assert [block.partition(" ")[0] for block in blocks if "--hash=sha256:" not in block] == []
    assert re.search(r"://|^\s*--(index|extra-index|find-links|trusted)", LOCK, re.MULTILINE) is None


def test_compiled_packages_are_pinned_for_every_platform():
    block = re.search(r"^rapidfuzz==.*?(?=^\S)", LOCK, re.MULTILINE | re.DOTALL)
    assert block is not None
    assert block.group().count("--hash=sha256:") > 50  # one file would be this machine's alone

"""README and docs: their Python runs, their commands exist, their links lead somewhere."""

import re
import shlex
from pathlib import Path

import pytest

from orderless.cli import main

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def blocks(page, *languages):
    pattern = rf"^```(?:{'|'.join(languages)})\n(.*?)^```"
    return re.findall(pattern, page.read_text(), re.MULTILINE | re.DOTALL)


def commands():
    """Every line of a shell block that is a command, with the page it stands on."""
    for page in PAGES:
        for block in blocks(page, "sh", "console"):
            for line in block.splitlines():
                words = shlex.split(line, comments=True)
                if words:
                    yield pytest.param(words, id=f"{page.relative_to(ROOT)}: {' '.join(words)}")


def name(page):
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=name)
def test_python_in_the_docs_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in blocks(page, "python"):
        exec(compile(block, str(page), "exec"), names)


@pytest.mark.parametrize("words", list(commands()))
def test_commands_in_the_docs_exist(words, tmp_path, monkeypatch):
    program, *arguments = words
    if program == "orderless":
        monkeypatch.chdir(tmp_path)
        assert main(arguments) == 0
    elif program == "make":
        assert re.search(rf"^{arguments[0]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    else:
        assert program == "pytest", "a command that no test knows how to check"
        assert all((ROOT / path).exists() for path in arguments if path.startswith("tests"))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_relative_links_resolve(page):
    targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text())
    missing = [
        target for target in targets if "://" not in target and not (page.parent / target).exists()
    ]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_files_named_in_the_docs_exist(page):
    named = re.findall(r"`((?:src/orderless/|tests/)?[a-z_]+/[a-z_/]*\w\.py)`", page.read_text())
    places = (ROOT, ROOT / "src/orderless")
    assert not [path for path in named if not any((place / path).exists() for place in places)]


def test_the_readme_shows_its_two_commands_and_ten_lines_of_python():
    readme = ROOT / "README.md"
    assert "make demo" in readme.read_text()
    assert "make test" in readme.read_text()
    (block,) = blocks(readme, "python")
    assert len(block.strip().splitlines()) <= 12


def test_every_page_can_be_reached_from_the_readme():
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop().resolve()
        if page in reached:
            continue
        reached.add(page)
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            found = (page.parent / target).resolve()
            waiting += found.glob("*.md") if found.is_dir() else [found] * (found.suffix == ".md")
    assert {page.resolve() for page in PAGES} <= reached

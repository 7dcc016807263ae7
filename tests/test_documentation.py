"""README and docs: their Python runs, their commands exist, their links lead somewhere."""

import re
import shlex
from pathlib import Path
from textwrap import dedent

import pytest
from benchmarks.pages import fill, pages

from orderless.cli import demo, main

ROOT = Path(__file__).parent.parent
PAGES = pages()


def blocks(page, *languages):
    """The fenced blocks of a page in these languages, in order: (language, text).

    Those of a list are indented, and count as well.
    """
    pattern = rf"^( *)```({'|'.join(languages)})\n(.*?)^\1```"
    found = re.findall(pattern, page.read_text(), re.MULTILINE | re.DOTALL)
    return [(language, dedent(text)) for _, language, text in found]


def name(page):
    return str(page.relative_to(ROOT))


@pytest.fixture
def small_demo(monkeypatch):
    """The demo on few sensors and steps; its full size has no place in a test."""
    sizes = {"FITTED": 4, "OTHERS": 4, "TRAINED": 700, "STEPS": 860, "ORIGINS": 4}
    for constant, value in sizes.items():
        monkeypatch.setattr(demo, constant, value)
    monkeypatch.setattr(demo, "TRAINING", {"batch_size": 4, "steps_per_epoch": 2})


@pytest.mark.usefixtures("small_demo")
@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page, "python", "sh", "console")], ids=name
)
def test_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for language, text in blocks(page, "python", "sh", "console"):
        if language == "python":
            exec(compile(text, str(page), "exec"), names)
            continue
        for line in text.splitlines():
            run_command(shlex.split(line, comments=True))


def run_command(words):
    if not words:
        return
    program, *arguments = words
    if program == "orderless":
        if arguments[-1] == "--help":
            with pytest.raises(SystemExit, match="0"):
                main(arguments)
        else:
            assert main(arguments) == 0
    elif program == "make":
        assert re.search(rf"^{arguments[0]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    elif program == "python":
        assert arguments[0] == "-m"
        assert (ROOT / arguments[1].replace(".", "/")).with_suffix(".py").exists()
    else:
        assert program == "pytest", "a command that no test knows how to check"
        assert all((ROOT / path).exists() for path in arguments if path.startswith("tests"))


@pytest.mark.parametrize("page", sorted(ROOT.glob("docs/how_to/*.md")), ids=name)
def test_a_how_to_page_has_commands(page):
    assert blocks(page, "sh", "console")


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
    ((_, block),) = blocks(readme, "python")
    assert len([line for line in block.splitlines() if line.strip()]) <= 10


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_tables_are_those_of_their_records(page):
    assert fill(page.read_text()) == page.read_text(), "run `python -m benchmarks.pages`"


def test_a_figure_that_is_changed_by_hand_is_found():
    text = (ROOT / "README.md").read_text()
    shown, *_ = re.findall(r"^\| naive \| ([\d.]+) \|", text, re.MULTILINE)
    assert fill(text.replace(shown, "0.0001")) == text


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

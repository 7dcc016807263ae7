import subprocess
import sys
import time

import pytest

from orderless.cli import main
from orderless.cli.main import VERBS


def test_help_names_every_verb_and_says_what_it_does(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    shown = capsys.readouterr().out
    for verb in VERBS:
        assert verb.__name__.rpartition(".")[2] in shown
    assert "stability of a layer" in shown


def test_help_imports_nothing_heavy():
    """Without torch, numpy and matplotlib there is nothing left that could be slow."""
    program = (
        "import sys\n"
        "from orderless.cli.main import _parser\n"
        "_parser().format_help()\n"
        "heavy = {'torch', 'numpy', 'matplotlib', 'rich', 'pandas'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_help_answers_within_three_tenths_of_a_second():
    command = [sys.executable, "-c", "from orderless.cli import main; main(['--help'])"]
    times = []
    for _ in range(5):
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.perf_counter() - start)
    assert min(times) < 0.3


def test_an_error_of_ours_is_one_line_and_exit_code_two(capsys):
    assert main(["certify", "--channels", "64", "--heads", "5"]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("orderless certify: ")
    assert shown.err.count("\n") == 1


def test_an_unknown_verb_is_exit_code_two(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["divine"])
    assert "divine" in capsys.readouterr().err

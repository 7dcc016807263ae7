import argparse
from functools import partial

import pytest

from orderless.cli import main
from orderless.cli.arguments import setting
from orderless.cli.config import apply_config, find_config
from orderless.cli.main import _parser
from orderless.errors import SettingError


def _parse(verb, folder, text, *words):
    """The arguments of a verb from a file and from words."""
    path = folder / "run.toml"
    path.write_text(text)
    parser, own = _parser(verb)
    words = [verb, *words, "--config", str(path)]
    apply_config(own, find_config(words))
    return parser.parse_args(words)


@pytest.fixture
def parse(tmp_path):
    return partial(_parse, "fit", tmp_path)


@pytest.fixture
def parse_bench(tmp_path):
    return partial(_parse, "bench", tmp_path)


WHOLE = 'data = "plant.csv"\nout = "model"\n'


def test_a_file_gives_every_kind_of_argument(parse):
    text = WHOLE + (
        "horizon = 12\nvalidation-share = 0.1\nstrict_variables = true\nseed = 3\n"
        '[network]\ncoupling = "none"\nlayers = 2\n'
    )
    parsed = parse(text)
    assert (str(parsed.data), str(parsed.out)) == ("plant.csv", "model")
    assert (parsed.horizon, parsed.validation_share, parsed.random_state) == (12, 0.1, 3)
    assert parsed.strict_variables is True
    assert dict(parsed.network) == {"coupling": "none", "layers": 2}


def test_flags_win_over_the_file(parse):
    text = WHOLE + 'horizon = 12\n[network]\ncoupling = "none"\nlayers = 2\n'
    parsed = parse(text, "other.csv", "--horizon", "6", "--network", "layers=1")
    assert (str(parsed.data), parsed.horizon) == ("other.csv", 6)
    assert dict(parsed.network) == {"coupling": "none", "layers": 1}


def test_unknown_keys_are_named(parse):
    with pytest.raises(SettingError, match=r"unknown keys colour, horizn.*horizon"):
        parse(WHOLE + 'horizn = 12\ncolour = "red"\n')


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('horizon = "soon"', "horizon is 'soon'; give a whole number"),
        ('preset = "huge"', "choose one of default, tiny, paper"),
        ("quiet = 1", "it is a switch, true or false"),
        ("network = 3", "a table of settings"),
        ("horizon = true", "give a number or text"),
    ],
)
def test_a_value_that_does_not_fit_is_an_error_in_words(line, words, parse):
    with pytest.raises(SettingError, match=words):
        parse(WHOLE + line + "\n")


def test_lists_of_a_file_are_those_of_the_flags(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text("level = [80, 95]\n")
    parser, own = _parser("predict")
    apply_config(own, path)
    assert parser.parse_args(["predict", "model", "data.csv"]).level == [80.0, 95.0]


def test_a_missing_or_broken_file_is_one_line(capsys, tmp_path):
    assert main(["doctor", "--config", str(tmp_path / "none.toml")]) == 2
    assert "cannot be read" in capsys.readouterr().err
    broken = tmp_path / "broken.toml"
    broken.write_text("horizon = = 3")
    assert main(["doctor", "--config", str(broken)]) == 2
    shown = capsys.readouterr().err
    assert "is not TOML" in shown
    assert shown.count("\n") == 1


def test_config_without_a_file_is_explained_by_the_parser(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["doctor", "--config"])
    assert "expected one argument" in capsys.readouterr().err


def test_a_setting_is_a_key_and_a_value_as_in_toml():
    assert setting("layers=2") == ("layers", 2)
    assert setting("coupling=none") == ("coupling", "none")
    assert setting('branches=["long"]') == ("branches", ["long"])
    with pytest.raises(argparse.ArgumentTypeError, match="KEY=VALUE"):
        setting("layers")


def test_arguments_that_take_several_values_take_a_list(parse_bench):
    parsed = parse_bench('action = "list"\ntables = ["m4", "anomaly"]\nonly = ["m4/", "/ridge/"]')
    assert parsed.action == "list"
    assert parsed.tables == ["m4", "anomaly"]
    assert parsed.only == ["m4/", "/ridge/"]
    parsed = parse_bench('action = "list"\ntables = "m4"\nonly = "m4/"')
    assert (parsed.tables, parsed.only) == (["m4"], ["m4/"])


def test_words_win_over_the_lists_of_a_file(parse_bench):
    text = 'action = "list"\ntables = ["m4"]\nonly = ["m4/"]\nbudget = "2x50"'
    parsed = parse_bench(text, "run", "anomaly", "pools", "--only", "a/", "--only", "b/")
    assert (parsed.action, parsed.tables) == ("run", ["anomaly", "pools"])
    assert parsed.only == ["a/", "b/"]
    assert parsed.budget == (2, 50)
    parsed = parse_bench(text, "run")
    assert (parsed.action, parsed.tables, parsed.only) == ("run", ["m4"], ["m4/"])


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("tables = [true]", "tables is True; give a number or text"),
        ('tables = [["m4"]]', "give a number or text"),
        ('only = {m4 = "all"}', "only is .* give a number or text"),
        ('budget = "8"', "budget: '8' is not EPOCHSxSTEPS"),
    ],
)
def test_a_value_of_a_list_that_does_not_fit_is_an_error_in_words(line, words, parse_bench):
    with pytest.raises(SettingError, match=words):
        parse_bench(line)


def test_lists_of_a_file_reach_the_verb(tmp_path, capsys):
    path = tmp_path / "run.toml"
    path.write_text('action = "list"\nnames = ["ETTh1", "Weather"]\n')
    assert main(["data", "--config", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "ETTh1: long-term" in shown
    assert "Weather: long-term" in shown

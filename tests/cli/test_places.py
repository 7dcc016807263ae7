import json
from argparse import Namespace

import pytest

from orderless.cli.places import check_places, write_record
from orderless.errors import DataError


@pytest.mark.parametrize("flag", ["out", "json", "plot", "picture"])
def test_a_missing_folder_is_found_for_every_kind_of_result(flag, tmp_path):
    endings = {"out": "csv", "json": "json"}
    path = tmp_path / "none" / f"result.{endings.get(flag, 'png')}"
    with pytest.raises(DataError, match="There is no folder"):
        check_places(Namespace(**{flag: path}))


def test_a_verb_without_results_has_nothing_to_check():
    check_places(Namespace(out=None, plot=None))


def test_records_are_json_that_any_program_reads(tmp_path):
    write_record({"a": [float("nan"), 1.0], "b": {"c": float("inf")}}, tmp_path / "r.json")
    text = (tmp_path / "r.json").read_text()
    assert json.loads(text, parse_constant=pytest.fail) == {"a": [None, 1.0], "b": {"c": None}}

import numpy as np
import pytest

from orderless import load
from orderless.cli import main
from orderless.cli.classify import _compare
from orderless.data import read_table, read_ts


def test_classify_writes_a_row_a_case_and_scores_it(files, classifier, capsys):
    assert main(["classify", str(classifier), str(files / "cases.ts")]) == 0
    shown = capsys.readouterr()
    header, *rows = shown.out.splitlines()
    assert header == "case,class,probability of drift,probability of fast,probability of slow"
    assert len(rows) == 9
    cases, labels = read_ts(files / "cases.ts")
    model = load(classifier)
    assert [row.split(",")[1] for row in rows] == model.predict(cases).tolist()
    right = round(9 * model.score(cases, labels))
    assert shown.err == f"{right} of 9 cases named rightly\n"


def test_classes_are_written_as_parquet(files, classifier, tmp_path):
    out = tmp_path / "classes.parquet"
    assert main(["classify", str(classifier), str(files / "cases.ts"), "--out", str(out)]) == 0
    assert len(read_table(out)["class"]) == 9


@pytest.mark.parametrize("label", [True, False])
def test_classify_reads_tables_with_and_without_classes(label, files, classifier, tmp_path):
    table = read_table(files / "cases.csv")
    command = ["classify", str(classifier), "--group", "case", "--time", "step"]
    path = files / "cases.csv"
    if label:
        command += ["--label", "class"]
    else:
        from orderless.data import write_table

        path = tmp_path / "unknown.csv"
        write_table(table.drop("class"), path)
    out = tmp_path / "classes.csv"
    assert main([*command, str(path), "--out", str(out)]) == 0
    assert read_table(out)["case"].to_list() == [f"case {number}" for number in range(9)]


def test_a_missing_column_of_classes_is_named(files, classifier, capsys):
    command = ["classify", str(classifier), str(files / "cases.csv"), "--group", "case"]
    assert main([*command, "--label", "kind"]) == 2
    assert "no column 'kind'" in capsys.readouterr().err


def test_a_column_of_classes_does_not_pass_for_a_variable_in_silence(files, tmp_path, capsys):
    text = (files / "cases.csv").read_text()
    for number, name in enumerate(("drift", "fast", "slow")):
        text = text.replace(name, str(number))
    (tmp_path / "cases.csv").write_text(text)
    columns = ["--group", "case", "--time", "step"]
    command = ["fit", str(tmp_path / "cases.csv"), "--task", "classify", *columns]
    command += ["--label", "class", "--preset", "tiny", "--epochs", "1", "--quiet"]
    assert main([*command, "--out", str(tmp_path / "names")]) == 0
    assert main(["classify", str(tmp_path / "names"), str(tmp_path / "cases.csv"), *columns]) == 0
    said = capsys.readouterr().err
    assert "did not see: class" in said
    assert "--label" in said


@pytest.fixture
def numbered(files, tmp_path):
    """A function that writes the cases with other classes."""

    def write(drift, fast, slow):
        text = (files / "cases.csv").read_text()
        for name, label in {"drift": drift, "fast": fast, "slow": slow}.items():
            text = text.replace(f",{name},", f",{label},")
        path = tmp_path / "cases.csv"
        path.write_text(text)
        return path

    return write


def test_classes_that_are_numbers_are_scored_by_value(files, numbered, tmp_path, capsys):
    columns = ["--group", "case", "--time", "step", "--label", "class"]
    names = str(tmp_path / "names")
    command = ["fit", str(numbered(1, 2, 3)), "--task", "classify", *columns, "--out", names]
    assert main([*command, "--preset", "tiny", "--epochs", "1", "--quiet"]) == 0
    texts = tmp_path / "cases.ts"
    text = (files / "cases.ts").read_text()
    for name, label in {":drift": ":1.0", ":fast": ":2.0", ":slow": ":3.0"}.items():
        text = text.replace(name, label)
    texts.write_text(text)
    said = set()
    for labels in ((1, 2, 3), (1.0, 2.0, 3.0)):
        assert main(["classify", names, str(numbered(*labels)), *columns]) == 0
        said.add(capsys.readouterr().err)
    (line,) = said
    assert int(line.partition(" of 9 cases")[0]) > 0
    assert main(["classify", names, str(texts)]) == 0
    shown = capsys.readouterr().err
    assert "cases named rightly\n" in shown
    assert "none of the model's classes" not in shown


def test_text_and_numbers_are_compared_as_numbers_where_they_can_be():
    texts, mixed, numbers = np.array(["1", "2.0"]), np.array(["1", "b"]), np.array([1, 2])
    assert _compare(numbers, texts).tolist() == [[True, False], [False, True]]
    assert _compare(texts, numbers).tolist() == [[True, False], [False, True]]
    assert _compare(numbers, mixed).tolist() == [[True, False], [False, False]]
    assert not _compare(np.array(["1.0"]), np.array(["1"])).any()


def test_labels_that_are_no_classes_of_the_model_are_named(classifier, numbered, capsys):
    columns = ["--group", "case", "--time", "step", "--label", "class"]
    assert main(["classify", str(classifier), str(numbered(7, 8, 9)), *columns]) == 0
    expected = "0 of 9 cases named rightly: the labels 7, 8, 9 are none of the model's classes "
    assert capsys.readouterr().err.endswith(expected + "drift, fast, slow\n")


def test_a_column_of_classes_is_refused_where_there_are_no_columns(
    files, classifier, tmp_path, capsys
):
    cases = str(files / "cases.ts")
    out = str(tmp_path / "names")
    for command in (
        ["classify", str(classifier), cases],
        ["fit", cases, "--task", "classify", "--out", out],
        ["verify", str(classifier), "--data", cases],
    ):
        assert main([*command, "--label", "class"]) == 2
        said = capsys.readouterr().err
        assert "--label names a column, and cases.ts has none" in said
        assert "Leave --label out." in said

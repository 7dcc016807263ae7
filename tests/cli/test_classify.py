import pytest

from orderless import load
from orderless.cli import main
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
    command += ["--label", "class", "--preset", "tiny", "--epochs", "0", "--quiet"]
    assert main([*command, "--out", str(tmp_path / "names")]) == 0
    assert main(["classify", str(tmp_path / "names"), str(tmp_path / "cases.csv"), *columns]) == 0
    said = capsys.readouterr().err
    assert "did not see them: class" in said
    assert "--label" in said

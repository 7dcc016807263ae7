import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from orderless import load
from orderless.cli import fit, main
from orderless.training.checkpoints import FILE_NAME

SMALL = ["--network", "channels=8", "--network", "states=2", "--network", 'branches=["long"]']


def test_fit_saves_a_forecaster_and_says_how_it_did(files, tmp_path, capsys):
    command = ["fit", str(files / "plant.csv"), "--horizon", "6", "--context", "24", *SMALL]
    command += ["--members", "coupled ridge,network", "--epochs", "1", "--no-refit"]
    assert (
        main([*command, "--training", "steps_per_epoch=2", "--out", str(tmp_path / "model")]) == 0
    )
    shown = capsys.readouterr().out
    assert "4 variables" in shown
    assert "coupled ridge" in shown
    model = load(tmp_path / "model")
    assert (model.horizon, model.context_, model.refit) == (6, 24, False)
    assert set(model.weights_) == {"coupled ridge 24", "network"}
    assert model.network["branches"] == ["long"]


def test_fit_saves_a_detector(files, tmp_path, capsys):
    command = ["fit", str(files / "healthy.csv"), "--task", "detect", "--contamination", "0.05"]
    command += [*SMALL, "--context", "24", "--members", "ridge", "--adapt", "none", "--quiet"]
    assert main([*command, "--out", str(tmp_path / "watch")]) == 0
    assert capsys.readouterr().out == ""
    model = load(tmp_path / "watch")
    assert (model.contamination, model.adapt) == (0.05, None)


@pytest.mark.parametrize(
    ("file", "columns"),
    [("cases.ts", []), ("cases.csv", ["--group", "case", "--label", "class", "--time", "step"])],
)
def test_fit_saves_a_classifier(file, columns, files, tmp_path):
    command = ["fit", str(files / file), "--task", "classify", *columns, *SMALL]
    command += ["--members", "flat ridge", "--quiet", "--out", str(tmp_path / "names")]
    assert main(command) == 0
    assert load(tmp_path / "names").classes_.tolist() == ["drift", "fast", "slow"]


def test_a_setting_of_another_task_is_refused(files, tmp_path, capsys):
    command = ["fit", str(files / "healthy.csv"), "--task", "detect", "--horizon", "3"]
    assert main([*command, "--out", str(tmp_path / "watch")]) == 2
    assert "--horizon does not apply to --task detect" in capsys.readouterr().err
    command = ["fit", str(files / "plant.csv"), "--label", "class", "--out", str(tmp_path / "m")]
    assert main(command) == 2
    assert "--label is for --task classify" in capsys.readouterr().err


def test_a_file_in_the_place_of_the_model_is_found_before_training(files, tmp_path, capsys):
    (tmp_path / "model").write_text("mine")
    assert main(["fit", str(files / "plant.csv"), "--out", str(tmp_path / "model")]) == 2
    assert "is a file" in capsys.readouterr().err
    assert (tmp_path / "model").read_text() == "mine"


def test_a_table_of_cases_needs_its_columns(files, tmp_path, capsys):
    command = ["fit", str(files / "cases.csv"), "--task", "classify", "--out", str(tmp_path / "m")]
    assert main(command) == 2
    assert "--group" in capsys.readouterr().err


def test_a_case_of_two_classes_is_refused(tmp_path, capsys):
    (tmp_path / "cases.csv").write_text("case,class,v\n0,a,1\n0,b,2\n1,b,3\n")
    command = ["fit", str(tmp_path / "cases.csv"), "--task", "classify", "--group", "case"]
    assert main([*command, "--label", "class", "--out", str(tmp_path / "m")]) == 2
    assert "belongs to two classes, 'a' and 'b'" in capsys.readouterr().err


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT to a process")
def test_a_stopped_run_says_how_to_go_on_and_the_same_command_does(files, tmp_path):
    out = tmp_path / "model"
    command = [sys.executable, "-c", "import sys; from orderless.cli import main; sys.exit(main())"]
    command += ["fit", str(files / "plant.csv"), "--horizon", "6", "--context", "24", *SMALL]
    command += ["--members", "network", "--epochs", "60", "--training", "patience=60"]
    command += ["--out", str(out)]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        kept = out / "checkpoint" / "network" / "checkpoint.safetensors"
        for _ in range(1200):
            if kept.exists() or run.poll() is not None:
                break
            time.sleep(0.1)
        run.send_signal(signal.SIGINT)
        _, said = run.communicate(timeout=60)
    finally:
        run.kill()
    assert run.returncode == 130, said
    assert f"the run so far is kept in {out / 'checkpoint'}" in said
    assert "the same command continues it" in said
    assert kept.exists()
    subprocess.run(command, check=True, capture_output=True)
    assert not kept.exists()
    assert len(load(out).history_["network"]) == 1 + 60


def test_the_checkpoint_is_gone_once_the_model_is_saved(files, tmp_path):
    out = tmp_path / "model"
    command = ["fit", str(files / "plant.csv"), "--horizon", "6", "--context", "24", *SMALL]
    command += ["--epochs", "1", "--training", "steps_per_epoch=2", "--quiet", "--out", str(out)]
    assert main(command) == 0
    card, config, weights = sorted(path.name for path in out.iterdir())
    assert (card, config, weights[:6]) == ("README.md", "config.json", "model-")


def test_files_of_somebody_else_in_the_place_of_the_model_are_found_before_any_work(
    tmp_path, capsys
):
    (tmp_path / "README.md").write_text("mine")
    # The data is not even looked for.
    assert main(["fit", str(tmp_path / "none.csv"), "--out", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "holds README.md and no saved model" in said
    assert said.count("\n") == 1
    assert (tmp_path / "README.md").read_text() == "mine"


@pytest.mark.parametrize("classes", ["1,,2", "a,,b"])
def test_a_missing_label_is_said_to_be_missing(classes, tmp_path, capsys):
    labels = classes.split(",")
    rows = [f"c{case},{labels[case]},{step}" for case in range(3) for step in range(2)]
    (tmp_path / "cases.csv").write_text("\n".join(["case,class,v", *rows]) + "\n")
    command = ["fit", str(tmp_path / "cases.csv"), "--task", "classify", "--group", "case"]
    assert main([*command, "--label", "class", "--out", str(tmp_path / "m")]) == 2
    said = capsys.readouterr().err
    assert "The label of case 'c1' is missing. Leave such cases out." in said


def test_a_folder_without_a_checkpoint_has_kept_nothing(tmp_path, capsys, monkeypatch):
    def press(arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("orderless.cli.fit.run", press)
    (tmp_path / "notes.txt").write_text("mine")
    command = ["fit", "none.csv", "--out", str(tmp_path / "model"), "--checkpoint", str(tmp_path)]
    assert main(command) == 130
    assert "nothing was kept" in capsys.readouterr().err
    (tmp_path / "network").mkdir()
    (tmp_path / "network" / FILE_NAME).write_text("a state")
    assert main(command) == 130
    assert f"the run so far is kept in {tmp_path}" in capsys.readouterr().err


def test_the_name_of_a_checkpoint_is_known_without_pytorch():
    assert fit.CHECKPOINT == FILE_NAME


@pytest.mark.parametrize("words", ["epochs=3", "seed=1", "device=cpu", "checkpoint=here"])
def test_a_setting_that_has_its_own_flag_is_refused_among_those_of_the_training(
    words, files, tmp_path, capsys
):
    command = ["fit", str(files / "plant.csv"), "--horizon", "6", "--context", "24", *SMALL]
    command += ["--members", "ridge", "--training", words, "--out", str(tmp_path / "model")]
    assert main(command) == 2
    said = capsys.readouterr().err
    assert f"`training` has {words.partition('=')[0]} = " in said
    assert said.count("\n") == 1
    assert not (tmp_path / "model").exists()


def test_a_checkpoint_that_cannot_be_written_is_found_before_training(
    files, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr("orderless.training.loop._Run.go", lambda *args: pytest.fail("it trains"))
    (tmp_path / "file").write_text("mine")
    command = ["fit", str(files / "plant.csv"), "--horizon", "6", "--context", "24", *SMALL]
    command += ["--epochs", "1", "--checkpoint", str(tmp_path / "file" / "state")]
    assert main([*command, "--out", str(tmp_path / "model")]) == 2
    assert "checkpoint" in capsys.readouterr().err


def test_a_run_whose_model_cannot_be_saved_is_kept(files, tmp_path, capsys, monkeypatch):
    written = Path.write_bytes

    def full(path, content):
        if path.parent.name == "full":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return written(path, content)

    command = ["fit", str(files / "plant.csv"), "--horizon", "6", "--context", "24", *SMALL]
    command += ["--epochs", "1", "--quiet"]
    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        assert main([*command, "--out", str(tmp_path / "full")]) == 2
    said = capsys.readouterr().err
    kept = tmp_path / "full" / "checkpoint"
    assert f"{tmp_path / 'full'} cannot be written: No space left" in said
    assert f"--checkpoint {kept} does not train again" in said
    monkeypatch.setattr(
        "orderless.training.loop._Run.one_step", lambda *_: pytest.fail("it trains")
    )
    assert main([*command, "--out", str(tmp_path / "model"), "--checkpoint", str(kept)]) == 0
    assert load(tmp_path / "model").horizon == 6


def test_shops_keep_their_leading_zeros(tmp_path, capsys):
    days = [f"2026-01-{day:02}" for day in range(1, 29)]
    rows = [f"{shop},{day},{n}.5" for shop in ("00501", "501") for n, day in enumerate(days)]
    (tmp_path / "shops.csv").write_text("\n".join(["shop,day,x", *rows]) + "\n")
    shops, model = str(tmp_path / "shops.csv"), str(tmp_path / "model")
    fit = ["fit", shops, "--group", "shop", "--horizon", "2", "--context", "4"]
    fit += ["--members", "ridge"]
    assert main([*fit, "--out", model, "--quiet"]) == 0
    assert main(["predict", model, shops]) == 0
    _, *rows = capsys.readouterr().out.splitlines()
    assert [row.split(",")[0] for row in rows] == ["00501", "00501", "501", "501"]


def test_a_state_that_was_kept_is_gone_once_the_model_is_saved(files, tmp_path):
    command = ["fit", str(files / "plant.csv"), "--horizon", "6", "--epochs", "1", "--quiet"]
    command += ["--network", "channels=16", "--training", "steps_per_epoch=2"]
    command += ["--out", str(tmp_path / "model"), "--checkpoint", str(tmp_path / "state")]
    for seed in ("1", "2"):
        assert main([*command, "--seed", seed]) == 0
        assert not (tmp_path / "state").exists()

from orderless.cli import main


def test_certify_prints_verdict_proof_and_margin(capsys):
    command = ["certify", "--channels", "8", "--states", "4", "--coupling", "feedback"]
    assert main([*command, "--variables", "300", "--smallest-step", "0.01"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("stable for 300 variables; it holds for any number of variables")
    assert "for steps of 0.01 and more" in shown
    assert "proof: two modes" in shown


def test_certify_takes_a_saved_model(detector, capsys):
    assert main(["certify", str(detector)]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("network\nstable for 4 variables")
    assert "body.blocks.0.branches.long" in shown
    assert main(["certify", str(detector), "--variables", "5000"]) == 0
    assert "stable for 5000 variables" in capsys.readouterr().out


def test_members_without_a_state_need_no_certificate(forecaster, capsys):
    assert main(["certify", str(forecaster)]) == 0
    assert "ridge 24" in capsys.readouterr().out


def test_certify_explains_a_request_that_has_no_answer(capsys):
    assert main(["certify", "--variables", "0"]) == 2
    assert "`n_variables` is 0" in capsys.readouterr().err


def test_settings_of_a_layer_are_refused_for_a_saved_model(forecaster, capsys):
    assert main(["certify", str(forecaster), "--channels", "3"]) == 2
    assert "--channels is for a fresh layer" in capsys.readouterr().err

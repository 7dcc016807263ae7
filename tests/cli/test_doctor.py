import torch

from orderless.cli import doctor, main
from orderless.ops import VI_SCAN


def test_doctor_names_versions_and_every_form(capsys):
    assert main(["doctor"]) == 0
    shown = capsys.readouterr().out
    assert f"torch {torch.__version__}" in shown
    for form in VI_SCAN.forms:
        assert form.name in shown
    for word in ("op", "form", "verdict", "reason", "chosen", "refuses"):
        assert word in shown


def test_every_typical_call_has_exactly_one_chosen_form():
    for facts in doctor._typical_calls("cpu").values():
        verdicts = [row.verdict for row in VI_SCAN.explain(facts)]
        assert verdicts.count("chosen") == 1


def test_the_typical_calls_choose_different_forms_on_a_cpu():
    chosen = {VI_SCAN.choose(facts).name for facts in doctor._typical_calls("cpu").values()}
    assert {"chunked", "convolution", "step"} <= chosen

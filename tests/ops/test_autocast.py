import pytest
import torch
from scan_cases import Case, build, results

from orderless.ops import FullGenerator, vi_scan


def run(call, form):
    arguments = {name: getattr(call, name) for name in call.__dataclass_fields__}
    return vi_scan(**arguments, form=form)


@pytest.mark.parametrize("form", ["chunked", "convolution", "reference", "step"])
@pytest.mark.parametrize("feedback", [False, True])
@pytest.mark.parametrize("field", [False, True])
def test_autocast_does_not_lower_the_precision_of_a_scan(form, feedback, field):
    case = Case(
        time=1 if form == "step" else 40,
        heads=2,
        head_size=4,
        field=field,
        feedback=feedback,
        constant=form == "convolution",
    )
    call = build(case, torch.float32)
    expected = results(call, lambda c: run(c, form))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = results(call, lambda c: run(c, form))
    for name, value in expected.items():
        assert torch.equal(found[name], value), name


def test_autocast_does_not_lower_the_precision_of_a_full_mean():
    call = build(Case(feedback=True), torch.float32)
    rates = [rate.requires_grad_() for rate in call.mean_generator]
    arguments = {name: getattr(call, name) for name in call.__dataclass_fields__}
    arguments["mean_generator"] = FullGenerator(*rates, torch.full_like(rates[0], 0.01))

    def gradients():
        return torch.autograd.grad(vi_scan(**arguments)[0].sum(), rates)

    expected = gradients()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for found, value in zip(gradients(), expected, strict=True):
            assert torch.equal(found, value)

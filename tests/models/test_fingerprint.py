import torch

from orderless.models.fingerprint import fingerprint


def test_a_fingerprint_changes_with_the_settings_and_with_every_number():
    data = torch.arange(4.0)
    first = fingerprint({"loss": "l1"}, data)
    assert first == fingerprint({"loss": "l1"}, data.clone())
    assert first != fingerprint({"loss": "mse"}, data)
    data[3] += 1e-5
    assert first != fingerprint({"loss": "l1"}, data)

import random

import pytest
import torch
from toy import Toy, settings

from orderless.errors import ModelFileError
from orderless.training import train
from orderless.training.checkpoints import FILE_NAME, load_checkpoint, save_checkpoint


@pytest.mark.parametrize("flips", [40, pytest.param(200, marks=pytest.mark.long)])
def test_no_flipped_bit_goes_unnoticed(tmp_path, flips):
    train(Toy(), settings(checkpoint=tmp_path, epochs=1))
    whole = (tmp_path / FILE_NAME).read_bytes()
    draw = random.Random(0)
    header = int.from_bytes(whole[:8], "little")
    for number in range(flips):
        content = bytearray(whole)
        place = draw.randrange(8 + header) if number % 2 else draw.randrange(len(whole))
        content[place] ^= 1 << draw.randrange(8)
        (tmp_path / FILE_NAME).write_bytes(content)
        with pytest.raises(ModelFileError):
            load_checkpoint(tmp_path)


def test_what_was_saved_is_what_is_loaded(tmp_path):
    shared = torch.randn(3, 4)
    tensors = {"one": shared, "two": shared.T, "zeros": torch.zeros(70, dtype=torch.int64)}
    facts = {"text": "0" * 64, "number": 1.5, "none": None}
    assert load_checkpoint(tmp_path) is None
    save_checkpoint(tmp_path / "new" / "folder", tensors, facts)
    loaded, found = load_checkpoint(tmp_path / "new" / "folder")
    assert found == facts
    assert all(torch.equal(loaded[name], tensors[name]) for name in tensors)

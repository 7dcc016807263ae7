import re

from orderless.cli import main


def test_demo_shows_the_numbers_and_leaves_a_picture(capsys, tmp_path):
    picture = tmp_path / "demo.png"
    assert main(["demo", "--picture", str(picture)]) == 0
    shown = capsys.readouterr().out
    sensor, alone, coupled = (float(found) for found in re.findall(r"  (\d\.\d{3})\n", shown))
    assert coupled < alone < sensor
    ours, ordered = (float(found) for found in re.findall(r"\d\.\de[+-]\d+", shown))
    assert ours < 1e-10
    assert ordered > 1e-3
    assert "it holds for any number of variables" in shown
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_same_seed_shows_the_same_numbers(capsys, tmp_path):
    shown = []
    for seed in ("1", "1", "2"):
        main(["demo", "--seed", seed, "--picture", str(tmp_path / "demo.png")])
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1] != shown[2]

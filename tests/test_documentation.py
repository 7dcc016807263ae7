"""README and docs: their Python runs, their commands exist, their links lead somewhere."""

import json
import re
import shlex
from itertools import chain, product
from pathlib import Path
from textwrap import dedent

import pytest

from orderless.cli import demo, main

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def blocks(page, *languages):
    """The fenced blocks of a page in these languages, in order: (language, text).

    Those of a list are indented, and count as well.
    """
    pattern = rf"^( *)```({'|'.join(languages)})\n(.*?)^\1```"
    found = re.findall(pattern, page.read_text(), re.MULTILINE | re.DOTALL)
    return [(language, dedent(text)) for _, language, text in found]


def name(page):
    return str(page.relative_to(ROOT))


@pytest.fixture
def small_demo(monkeypatch):
    """The demo on few sensors and steps; its full size has no place in a test."""
    sizes = {"FITTED": 4, "OTHERS": 4, "TRAINED": 700, "STEPS": 860, "ORIGINS": 4}
    for constant, value in sizes.items():
        monkeypatch.setattr(demo, constant, value)
    monkeypatch.setattr(demo, "TRAINING", {"batch_size": 4, "steps_per_epoch": 2})


@pytest.mark.usefixtures("small_demo")
@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page, "python", "sh", "console")], ids=name
)
def test_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for language, text in blocks(page, "python", "sh", "console"):
        if language == "python":
            exec(compile(text, str(page), "exec"), names)
            continue
        for line in text.splitlines():
            run_command(shlex.split(line, comments=True))


def run_command(words):
    if not words:
        return
    program, *arguments = words
    if program == "orderless":
        if arguments[-1] == "--help":
            with pytest.raises(SystemExit, match="0"):
                main(arguments)
        else:
            assert main(arguments) == 0
    elif program == "make":
        assert re.search(rf"^{arguments[0]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    elif program == "python":
        assert arguments[0] == "-m"
        assert (ROOT / arguments[1].replace(".", "/")).with_suffix(".py").exists()
    else:
        assert program == "pytest", "a command that no test knows how to check"
        assert all((ROOT / path).exists() for path in arguments if path.startswith("tests"))


@pytest.mark.parametrize("page", sorted(ROOT.glob("docs/how_to/*.md")), ids=name)
def test_a_how_to_page_has_commands(page):
    assert blocks(page, "sh", "console")


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_relative_links_resolve(page):
    targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text())
    missing = [
        target for target in targets if "://" not in target and not (page.parent / target).exists()
    ]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_files_named_in_the_docs_exist(page):
    named = re.findall(r"`((?:src/orderless/|tests/)?[a-z_]+/[a-z_/]*\w\.py)`", page.read_text())
    places = (ROOT, ROOT / "src/orderless")
    assert not [path for path in named if not any((place / path).exists() for place in places)]


def test_the_readme_shows_its_two_commands_and_ten_lines_of_python():
    readme = ROOT / "README.md"
    assert "make demo" in readme.read_text()
    assert "make test" in readme.read_text()
    ((_, block),) = blocks(readme, "python")
    assert len([line for line in block.splitlines() if line.strip()]) <= 10


def test_the_errors_in_the_readme_are_those_that_the_demo_printed():
    printed = set(re.findall(r"\b\d\.\d{4}\b", (ROOT / "docs/pictures/demo.txt").read_text()))
    shown = re.findall(r"\| (\d\.\d{4}) \|", (ROOT / "README.md").read_text())
    assert shown
    assert set(shown) <= printed


def test_the_plant_table_is_that_of_its_record():
    """Every row of the table is a mean over the seeds of the record it names, rounded."""
    text = (ROOT / "README.md").read_text()
    for record in re.findall(r"benchmarks/results/plant\w*\.json", text):
        rows = json.loads((ROOT / record).read_text())["results"]["rows"]
        for model in {row["model"] for row in rows}:
            own = [row for row in rows if row["model"] == model]
            parts = ("time", "sensors", "alone")
            means = [sum(row[part] for row in own) / len(own) for part in parts]
            assert f"| {model} | {' | '.join(f'{mean:.3f}' for mean in means)} |" in text


def test_the_comparison_in_the_readme_is_that_of_the_report():
    """Our figure and the best other stand side by side in the overview of the report."""
    report = (ROOT / "results/report.md").read_text()
    section = (ROOT / "README.md").read_text().split("## How it compares")[1].split("\n## ")[0]
    shown = re.findall(r"^\| .+? \| ([\d.]+) \| (.+?) \|$", section, re.MULTILINE)
    assert len(shown) == 4
    assert not [pair for pair in shown if f"| {pair[0]} | {pair[1]} |" not in report]


def test_what_coupling_costs_on_public_sets_is_that_of_the_cells():
    """Coupled against uncoupled, in the rows of the long-term table under the protocol `fair`."""
    rows = {}
    for file in sorted((ROOT / "results/cells/long-term").glob("*-orderless-fair.json")):
        pair = (file, file.with_name(file.name.replace("orderless", "orderless_uncoupled")))
        seeds = [json.loads(one.read_text())["seeds"] for one in pair]
        rows[tuple(file.name.split("-")[:2])] = [
            sum(seed["test"]["mse"] for seed in own) / len(own) for own in seeds
        ]
    text = " ".join((ROOT / "README.md").read_text().split())

    def change(*wanted):
        chosen = [row for name, row in rows.items() if set(wanted) <= set(name)]
        coupled, alone = (sum(part) for part in zip(*chosen, strict=True))
        word = "better" if coupled < alone else "worse"
        return f"{100 * abs(coupled / alone - 1):.1f} % {word}"

    lower, higher = (
        sum(sign * (coupled - alone) < 0 for coupled, alone in rows.values()) for sign in (1, -1)
    )
    assert f"over {len(rows)} rows" in text
    assert f"is {change()} than the one without" in text
    assert f"lower in {lower} rows and higher in {higher}" in text
    assert f"between {change('ETTm2')} (ETTm2) and {change('Exchange')} (Exchange)" in text
    assert f"ETTh2 {change('ETTh2')}" in text
    assert f"{change('Weather', '720')} (Weather 720)" in text
    assert f"{change('Exchange', '336')} (Exchange 336)" in text


def test_the_gpu_figures_are_those_of_their_record():
    page = ROOT / "docs/concepts/gpu_figures.md"
    text = page.read_text()
    readme = " ".join((ROOT / "README.md").read_text().split())
    (record,) = re.findall(r"\((\S+scan_gpu_\w+\.json)\)", text)
    found = json.loads((page.parent / record).read_text())

    def ms(name):
        return found[name]["median_ms"]

    def both(kind, digits, sizes=""):
        alone, field = (ms(f"{kind} {coupling}{sizes}") for coupling in ("none", "field"))
        return f"| {alone:.{digits}f} ms | {field:.{digits}f} ms |"

    field = ms("forward bf16 field")
    ordered = found["ordered bf16 forward"]
    calls = found["first call"]
    rows = [
        f"| forward, bf16 {both('forward bf16', 3)}",
        f"| forward and backward, bf16 {both('training bf16', 2)}",
        f"| forward and backward, fp32 {both('training fp32', 2)}",
        f"forward and backward, bf16 {both('training bf16', 2, ' (32, 321, 64, 128, 16)')}",
        f"forward and backward, bf16 {both('training bf16', 3, ' (32, 7, 64, 64, 16)')}",
        f"| feedback | {ms('forward bf16 feedback'):.3f} ms | "
        f"{ms('forward bf16 feedback') / field:.2f} |",
    ]
    for states, precision in product((8, 32), ("bf16", "fp32")):
        time = ms(f"training {precision} none, {states} states")
        rows.append(f"| forward and backward, {states} states, {precision} | {time:.2f} ms |")
    shares = [
        found[f"forward bf16 {kind}"]["share_of_copy_bandwidth"] for kind in ("none", "field")
    ]
    rows.append(f"share of copy bandwidth | {shares[0]:.0%} | {shares[1]:.0%} |".replace("%", " %"))
    for launches in ordered.values():
        rows.append(f"| {launches['median_ms']:.2f} ms | {launches['median_ms'] / field:.1f} |")
    for variables in (64, 128, 512, 862):
        own = [found[f"training {kind} none, {variables} variables"] for kind in ("bf16", "fp32")]
        busy, clock = (
            [one[key] for one in own] for key in ("sustained_us_per_variable", "us_per_variable")
        )
        entries = (f"{busy[0]:.2f}", f"{busy[1]:.1f}", f"{clock[0]:.2f}", f"{clock[1]:.1f}")
        rows.append(f"| {variables} | {' | '.join(entries)} |")
    few, many = (found[f"training bf16 none, {variables} variables"] for variables in (64, 862))
    busy, clock = (few[key] / many[key] for key in ("sustained_us_per_variable", "us_per_variable"))
    for sentence in (
        f"The record has {busy - 1:.0%} in bf16".replace("%", " %"),
        f"take {clock - 1:.1%} more than 862, these {1 - 1 / clock:.1%} less".replace("%", " %"),
    ):
        assert sentence in " ".join(text.split())
    for variables, time in product((8, 32, 64), (16_384, 131_072)):
        sizes = (1, variables, time, 64, 16)
        entries = {}
        for coupling in ("none", "field", "feedback"):
            forth, back = (f"{kind} bf16 {coupling} {sizes}" for kind in ("forward", "training"))
            bound = found[forth]["times_the_bandwidth_bound"]
            entries[coupling] = (f"{ms(forth):.3f} ms", f"{bound:.1f}", f"{ms(back):.2f} ms")
            if coupling == "none":
                verdict = "met" if bound <= 2 else "missed"
        alone = entries.pop("none")
        rows.append(f"| {variables}, {time:,} | {' | '.join((*alone[:2], verdict, alone[2]))} |")
        rows.append(f"| {variables}, {time:,} | {' | '.join(chain(*entries.values()))} |")
    ours = [ms(f"training {kind} none") for kind in ("bf16", "fp32")]
    assert f"The scan here took {ours[0]:.2f} and {ours[1]:.2f} ms" in " ".join(text.split())
    peers = {name.partition(", ")[2] for name in found if re.search("SSD|selective", name)}
    slower = {}
    for scan in peers:
        times = [ms(f"training {kind}, {scan}") for kind in ("bf16", "fp32")]
        pairs = zip(times, ours, strict=True)
        rows.append(" | ".join(f"{peer:.2f} ms | {peer / own:.1f}" for peer, own in pairs))
        slower[scan] = times[0] / ours[0]
    assert len(peers) == 1 + 2 * 4
    best = min((scan for scan in slower if "graph" in scan), key=lambda scan: slower[scan])
    assert f"takes {slower[best]:.1f} times as long at the best of four sizes" in readme
    exact = ms(f"training fp32, {best}") / ours[1]
    assert f"**{slower[best]:.1f}** and {exact:.1f} times as long" in " ".join(text.split())
    assert f"Mamba's {slower['selective scan']:.1f} times" in readme
    assert all(f"{ms(f'training bf16 {kind}'):.2f} ms" in readme for kind in ("none", "field"))
    for (when, times), digits in zip(calls.items(), (1, 2), strict=True):
        entries = (f"{times[key]:.{digits}f}" for key in ("forward_s", "forward_and_backward_s"))
        rows.append(f"| {when} | {' | '.join(entries)} |")
    assert not [row for row in rows if row not in text]


def test_the_figures_of_training_on_a_gpu_are_those_of_their_records():
    text = " ".join((ROOT / "docs/concepts/gpu_figures.md").read_text().split())
    found, commits = {}, set()
    for record in ("", "_first", "_memory"):
        path = ROOT / f"benchmarks/results/training_gpu{record}.json"
        whole = json.loads(path.read_text())
        commits.add(whole["commit"][:7])
        found |= whole["results"]
    epochs = [one["seconds_per_epoch"] for one in found["epoch"]]
    repeats = [seconds for one in found["epoch"] for seconds in one["repeats"]]
    steps = [one["microseconds_of_a_step"] / 1e3 for one in found["step"]]
    kernels = [one["kernels"] for one in found["step"]]
    firsts = [one["first_fit_s"] for one in found["first"]]
    first_repeats = [one["first_fit_s"] for one in found["first"][0]["repeats"]]
    compiled = [len(one["compiled"]) for one in found["first"]]
    peaks = [one["peak_megabytes_of_a_step"] for one in found["memory"]]
    assert len(commits) == 1
    assert f"scan_gpu_nvidia_h200_{commits.pop()}.json" in text
    sentences = (
        f"takes {epochs[0]:.3f} s, in bf16 {epochs[1]:.3f} s; "
        f"repeats are from {min(repeats):.3f} to {max(repeats):.3f}.",
        f"A step takes {steps[0]:.2f} ms",
        f"idle for {found['step'][0]['microseconds_to_the_next']:.0f} us until the next",
        f"{kernels[0]} kernels of {steps[0] * 1e3 / kernels[0]:.0f} us each",
        f"In bf16 it is {steps[1]:.2f} ms in {kernels[1]} kernels",
        f"takes {firsts[0]:.1f} s ({min(first_repeats):.1f} to {max(first_repeats):.1f}), "
        f"in bf16 {firsts[1]:.1f} s",
        f"{compiled[0]} kernels are compiled, in bf16 {compiled[1]}",
        f"takes {peaks[0]:.0f} MB, in bf16 {peaks[1]:.0f} MB",
    )
    assert not [sentence for sentence in sentences if sentence not in text]


def test_every_page_can_be_reached_from_the_readme():
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop().resolve()
        if page in reached:
            continue
        reached.add(page)
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            found = (page.parent / target).resolve()
            waiting += found.glob("*.md") if found.is_dir() else [found] * (found.suffix == ".md")
    assert {page.resolve() for page in PAGES} <= reached

"""Tables of the pages, made of their records.

    python -m benchmarks.pages

Between `<!-- table: NAME -->` and `<!-- end -->` a page holds the table of that name. This writes
all of them anew, and a test checks that they are as written. Words around them are a writer's.
"""

import json
import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from pathlib import Path

ROOT = Path(__file__).parents[1]
MARKED = re.compile(r"(<!-- table: ([\w ]+) -->\n).*?(<!-- end -->)", re.DOTALL)
TABLES: dict[str, Callable[[], str]] = {}
LONG = tuple(product((8, 32, 64), (16_384, 131_072)))


def main() -> None:
    for page in pages():
        text = page.read_text(encoding="utf-8")
        if (filled := fill(text)) != text:
            page.write_text(filled, encoding="utf-8")
            print("wrote", page.relative_to(ROOT))


def pages() -> list[Path]:
    """Every page of the project."""
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def fill(text: str) -> str:
    """A page with its tables as their records have them."""
    return MARKED.sub(lambda found: found[1] + TABLES[found[2]]() + found[3], text)


def table(name: str) -> Callable[[Callable[[], Iterable[Sequence[str]]]], Callable[[], str]]:
    """Register what gives the rows of a table, the first of them its head."""

    def register(rows: Callable[[], Iterable[Sequence[str]]]) -> Callable[[], str]:
        def write() -> str:
            head, *lines = (f"| {' | '.join(entries)} |" for entries in rows())
            rule = "|" + "---|" * (head.count("|") - 1)
            return "\n".join([head, rule, *lines]) + "\n"

        TABLES[name] = write
        return write

    return register


def record(name: str) -> dict:
    """What a benchmark wrote."""
    (path,) = (ROOT / "benchmarks/results").glob(f"{name}.json")
    return json.loads(path.read_text(encoding="utf-8"))


@table("members")
def members() -> Iterable[Sequence[str]]:
    """The members of the demo, as `fit` printed them."""
    printed = (ROOT / "docs/pictures/demo.txt").read_text(encoding="utf-8")
    yield "member", "MAE", "MSE", "weight"
    for line in re.findall(r"^\w.*?  +\d+\.\d{4} +\d+\.\d{4}.*$", printed, re.MULTILINE):
        name, *numbers = re.split(r"  +", line.strip())
        yield name, *numbers, *[""] * (3 - len(numbers))


@table("plant")
def plant() -> Iterable[Sequence[str]]:
    rows = record("plant")["results"]["rows"]
    yield "model", "later times", "other sensors", "one sensor alone"
    for model in dict.fromkeys(row["model"] for row in rows):
        own = [row for row in rows if row["model"] == model]
        parts = ("time", "sensors", "alone")
        yield model, *(f"{statistics.fmean(row[part] for row in own):.3f}" for part in parts)


@table("coupling")
def coupling() -> Iterable[Sequence[str]]:
    """The network with coupling against the one without, over seeds and horizons of a set."""
    cells = ROOT / "results/cells/long-term"
    errors: dict[str, list[list[float]]] = {}
    for path in sorted(cells.glob("*-orderless-fair.json")):
        pair = path, cells / path.name.replace("orderless", "orderless_uncoupled")
        seeds = (json.loads(one.read_text(encoding="utf-8"))["seeds"] for one in pair)
        means = [statistics.fmean(seed["test"]["mse"] for seed in each) for each in seeds]
        errors.setdefault(path.name.split("-")[0], []).append(means)
    yield "MSE of the network", "with coupling", "without", "difference"
    errors["all"] = [means for each in errors.values() for means in each]
    for name, each in errors.items():
        with_it, without = (statistics.fmean(part) for part in zip(*each, strict=True))
        change = f"{100 * (with_it / without - 1):+.1f} %"
        yield f"{name}, {len(each)} horizons", f"{with_it:.3f}", f"{without:.3f}", change


@table("comparison")
def comparison() -> Iterable[Sequence[str]]:
    """Ours and the best other of one metric of each table of the report."""
    from orderless.bench.grid import build_grid
    from orderless.bench.registry import TABLES as tables
    from orderless.bench.report import overview

    chosen = {"long-term": "mse", "m4": "owa", "classification": "accuracy", "anomaly": "vus_pr"}
    yield "table", "mean over", "orderless", "best other"
    for name, metric in chosen.items():
        (wanted,) = (one for one in tables[name].metrics["fair"] if one.name == metric)
        grid = build_grid(tables[name], "fair", wanted, ROOT / "results")
        ((_, rows, ours, best, *_),) = overview([grid])
        better = "higher" if wanted.higher_is_better else "lower"
        yield f"{tables[name].title}: {wanted.label}, {better} is better", rows, ours, best


@table("number of variables")
def number_of_variables() -> Iterable[Sequence[str]]:
    yield "variables", "forecast, CPU s", "training step, CPU s", "peak memory, MiB"
    for row in record("number_of_variables")["results"]["rows"]:
        seconds = (f"{row[f'{what}_cpu_seconds']:.3f}" for what in ("forecast", "step"))
        yield f"{row['variables']:,}", *seconds, f"{row['peak_mib']:.0f}"


@table("predict latency")
def predict_latency() -> Iterable[Sequence[str]]:
    found = record("predict_latency")["results"]
    yield "", "median, ms", "10 to 90 %", "CPU, ms"
    for name, label in (
        ("linear", "a coupled ridge"),
        ("network", "a network on it"),
        ("network alone", "the network alone, two threads"),
        ("neuralforecast PatchTST", "PatchTST of neuralforecast, of a like size"),
    ):
        one = {key: f"{value:.1f}" for key, value in found[name].items()}
        between = f"{one['p10_ms']} to {one['p90_ms']}"
        yield label, one["median_ms"], between, one["median_cpu_ms"]


@table("etth1")
def etth1() -> Iterable[Sequence[str]]:
    yield "", "seconds", "CPU s", "MSE", "MAE"
    for row in record("etth1")["results"]:
        seed = row["settings"].get("random_state")
        name = f"{row['model']} (no training)" if seed is None else f"network, seed {seed}"
        seconds = (f"{row[key]:.1f}" for key in ("fit_seconds", "fit_cpu_seconds"))
        yield name, *seconds, f"{row['mse']:.4f}", f"{row['mae']:.4f}"


@table("start up")
def start_up() -> Iterable[Sequence[str]]:
    found = {name: one["median_s"] for name, one in record("start_up")["results"].items()}
    labels = {
        "python alone": "Python alone",
        "the estimators": "`from orderless import Forecaster`",
    }
    yield "", "seconds"
    for name in sorted(found, key=found.__getitem__):
        seconds = found[name]
        yield labels.get(name, f"`{name}`"), f"{seconds:.{2 if seconds > 1 else 3}f}"


@table("trace")
def trace() -> Iterable[Sequence[str]]:
    yield "", "files", "switches between files", "between modules"
    for name, one in record("trace")["results"].items():
        keys = ("files", "switches_between_files", "switches_between_modules")
        yield f"`{name}`", *(f"{one[key]:,}" for key in keys)


@table("scan gpu")
def scan_gpu() -> Iterable[Sequence[str]]:
    found = record("scan_gpu_*")

    def ms(name: str, digits: int) -> str:
        return f"{found[name]['median_ms']:.{digits}f} ms"

    def row(what: str, name: str, digits: int, goal: float | None = None) -> Sequence[str]:
        keys = name.format("none"), name.format("field")
        shown = [ms(key, digits) if key in found else "" for key in keys]
        if goal is None:
            return what, *shown, "", ""
        alone, field = (found[key]["median_ms"] <= goal for key in keys)
        verdict = "met" if field else "met alone, above it with a field" if alone else "missed"
        return what, *shown, f"{goal:g} ms", verdict

    yield "what", "alone", "with a field", "goal", ""
    yield row("forward, bf16", "forward bf16 {}", 3)
    keys = ("forward bf16 none", "forward bf16 field")
    shares = [found[key]["share_of_copy_bandwidth"] for key in keys]
    verdict = "met" if min(shares) >= 0.5 else "missed"
    yield (
        "the same as a share of copy bandwidth",
        *(f"{100 * share:.0f} %" for share in shares),
        "50 %",
        verdict,
    )
    for precision, goal in (("bf16", 1.25), ("fp32", 3.0)):
        yield row(f"forward and backward, {precision}", f"training {precision} {{}}", 2, goal)
    for states, precision in product((8, 32), ("bf16", "fp32")):
        name = f"training {precision} {{}}, {states} states"
        yield row(f"forward and backward, {states} states, {precision}", name, 2)
    for sizes, digits, goal in (
        ("(32, 321, 64, 128, 16)", 2, 1.2),
        ("(32, 7, 64, 64, 16)", 3, 0.15),
    ):
        name = f"training bf16 {{}} {sizes}"
        yield row(f"{sizes}, forward and backward, bf16", name, digits, goal)


@table("other kernels gpu")
def other_kernels_gpu() -> Iterable[Sequence[str]]:
    found = record("scan_gpu_*")
    field = found["forward bf16 field"]["median_ms"]
    feedback = found["forward bf16 feedback"]["median_ms"]
    yield "what, forward, bf16", "time", "times that of a field", "goal", ""
    verdict = "met" if feedback <= 2 * field else "missed"
    yield "feedback", f"{feedback:.3f} ms", f"{feedback / field:.2f}", "at most 2", verdict
    ordered = found["ordered bf16 forward"]
    for (name, one), goal in zip(ordered.items(), (10, 2), strict=True):
        times = one["median_ms"] / field
        verdict = "met" if times >= goal else "missed"
        yield (
            f"the ordered scan, {name}",
            f"{one['median_ms']:.2f} ms",
            f"{times:.1f}",
            f"at least {goal}",
            verdict,
        )


@table("other scans gpu")
def other_scans_gpu() -> Iterable[Sequence[str]]:
    found = record("scan_gpu_*")
    names = dict.fromkeys(
        name.partition(", ")[2] for name in found if re.search("SSD|selective", name)
    )
    precisions = ("bf16", "fp32")
    times = {
        name: [found[f"training {precision}, {name}"]["median_ms"] for precision in precisions]
        for name in names
    }
    ours = [found[f"training {precision} none"]["median_ms"] for precision in precisions]
    yield "", "bf16", "times as long as here", "fp32", "times as long as here"
    for name, pair in sorted(times.items(), key=lambda one: one[1]):
        entries = ((f"{t:.2f} ms", f"{t / own:.1f}") for t, own in zip(pair, ours, strict=True))
        sizes = "Mamba-2 SSD, heads of 32, chunks of 64"
        label = name if "heads" in name else name.replace("Mamba-2 SSD", sizes)
        yield (label, *(entry for both in entries for entry in both))


@table("variables gpu")
def variables_gpu() -> Iterable[Sequence[str]]:
    found = record("scan_gpu_*")
    clocks = ("sustained_us_per_variable", "us_per_variable")

    def times(variables: int) -> list[float]:
        return [
            found[f"training {precision} none, {variables} variables"][clock]
            for clock, precision in product(clocks, ("bf16", "fp32"))
        ]

    yield (
        "variables",
        *(
            f"{precision}, {clock}"
            for clock, precision in product(("sustained", "one clock"), ("bf16", "fp32"))
        ),
    )
    for variables in (64, 128, 512, 862):
        digits = (2, 1, 2, 1)
        yield str(variables), *(f"{t:.{d}f}" for t, d in zip(times(variables), digits, strict=True))
    more = [few / many - 1 for few, many in zip(times(64), times(862), strict=True)]
    yield "64 more than 862", *(f"{100 * one:.1f} %" for one in more)


@table("long series gpu")
def long_series_gpu() -> Iterable[Sequence[str]]:
    found = record("scan_gpu_*")
    yield "variables and times", "forward", "times the bound", "", "forward and backward"
    for variables, time in LONG:
        forth, back = (
            found[f"{k} bf16 none (1, {variables}, {time}, 64, 16)"]
            for k in ("forward", "training")
        )
        bound = forth["times_the_bandwidth_bound"]
        yield (
            f"{variables}, {time:,}",
            f"{forth['median_ms']:.3f} ms",
            f"{bound:.1f}",
            "met" if bound <= 2 else "missed",
            f"{back['median_ms']:.2f} ms",
        )


@table("long series coupled gpu")
def long_series_coupled_gpu() -> Iterable[Sequence[str]]:
    found = record("scan_gpu_*")
    couplings = ("field", "feedback")
    yield (
        "variables and times",
        *(
            entry
            for coupling in couplings
            for entry in (f"{coupling}, forward", "times the bound", "forward and backward")
        ),
    )
    for variables, time in LONG:
        entries = [f"{variables}, {time:,}"]
        for one in couplings:
            forth, back = (
                found[f"{k} bf16 {one} (1, {variables}, {time}, 64, 16)"]
                for k in ("forward", "training")
            )
            bound = forth["times_the_bandwidth_bound"]
            entries += [
                f"{forth['median_ms']:.3f} ms",
                f"{bound:.1f}",
                f"{back['median_ms']:.2f} ms",
            ]
        yield entries


@table("first call gpu")
def first_call_gpu() -> Iterable[Sequence[str]]:
    yield "", "forward", "forward and backward"
    for (when, seconds), digits in zip(
        record("scan_gpu_*")["first call"].items(), (1, 2), strict=True
    ):
        yield (
            when,
            *(f"{seconds[key]:.{digits}f}" for key in ("forward_s", "forward_and_backward_s")),
        )


@table("training gpu")
def training_gpu() -> Iterable[Sequence[str]]:
    found = {
        key: value
        for name in ("training_gpu", "training_gpu_first", "training_gpu_memory")
        for key, value in record(name)["results"].items()
    }
    yield "", "fp32", "bf16"
    yield "an epoch of ETTh1", *(f"{one['seconds_per_epoch']:.3f} s" for one in found["epoch"])
    yield (
        "a step of it",
        *(f"{one['microseconds_of_a_step'] / 1e3:.2f} ms" for one in found["step"]),
    )
    yield "kernels of a step", *(str(one["kernels"]) for one in found["step"])
    yield (
        "idle until the next step",
        *(f"{one['microseconds_to_the_next']:.0f} us" for one in found["step"]),
    )
    yield (
        "the first `fit`, nothing compiled before",
        *(f"{one['first_fit_s']:.1f} s" for one in found["first"]),
    )
    yield "kernels that it compiles", *(str(len(one["compiled"])) for one in found["first"])
    yield (
        "peak memory of a step at 321 variables",
        *(f"{one['peak_megabytes_of_a_step']:.0f} MB" for one in found["memory"]),
    )


if __name__ == "__main__":
    main()

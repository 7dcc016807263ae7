"""Figures that others have printed, as they printed them, each with its source.

`long-term.csv`, `m4.csv`, `classification.csv` and `anomaly.csv` are taken from the LaTeX of the
paper's appendix, `long-term-main.csv` and those of the analyses from the tables in its text; the
row `average` is the printed one. Files that end in `-fair` hold figures of others who scored every
test window, or chose nothing on test data.
"""

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from orderless.bench.protocols import FAIR, PAPER

THE_PAPER = "the paper"
APPENDIX = "the paper, full results in its appendix"
SOURCES = {
    "long-term": f"{APPENDIX}. Its columns mix contexts: most are runs at 96, its own and TCN's "
    "are not, and the last partial test batch was dropped as far as can be inferred",
    "long-term-fair": "DUET, duet_full_results.png; xPatch, PDF, TimeMixer, PatchTST, "
    "iTransformer, DLinear, FITS: xPatch, hyper-fair.png; CycleNet: its result.txt, 5 seeds, best "
    "context; SparseTSF: Table2.png. Averages over four horizons, nothing dropped; their "
    "contexts were searched for each set, where our networks have one",
    "m4": f"{APPENDIX}. The epoch was chosen by test SMAPE in the code that these share",
    "classification": f"{APPENDIX}. The epoch was chosen by test accuracy in the code they share",
    "classification-fair": "MambaSL, uea-results.xlsx: run with aeon, nothing chosen on test",
    "ordering": "the paper's controlled simulation. It does not say how its series were scaled, so "
    "errors are of another unit; over ten permutations it prints a standard deviation of 0.000 of "
    "its MAE and 0.050 of its MAPE, and 0.001 and 0.130 for its 2D-SSM; a model without order "
    "cannot have any but rounding",
    "scaling": "the paper's controlled simulation; its errors and its machine are others",
    "ablation": "the paper's ablation, averages over four horizons",
    "flops": "the paper's measurement on Electricity; it does not say whether a multiplication and "
    "its addition count once or twice, nor whether memory is that of training",
    "anomaly": f"{APPENDIX}. Point-adjusted, threshold from training and test scores together",
}
FILES = {
    ("long-term", PAPER): "long-term",
    ("long-term", FAIR): "long-term-fair",
    ("m4", PAPER): "m4",
    ("classification", PAPER): "classification",
    ("classification", FAIR): "classification-fair",
    ("anomaly", PAPER): "anomaly",
    ("ordering", FAIR): "ordering",
    ("scaling", FAIR): "scaling",
    ("ablation", PAPER): "ablation",
    ("flops", FAIR): "flops",
}
AVERAGE = "average"


@dataclass(frozen=True)
class Published:
    """Printed figures by (dataset, setting, model, metric), the models in order, and the source."""

    figures: dict[tuple[str, str, str, str], float]
    models: tuple[str, ...]
    source: str


@cache
def read_published(table: str, protocol: str) -> Published:
    """What may be set beside a table of a protocol; nothing where nobody has printed any."""
    name = FILES.get((table, protocol))
    if name is None:
        return Published({}, (), "")
    figures = _read(name)
    models = tuple(dict.fromkeys(model for _, _, model, _ in figures))
    if THE_PAPER in models:
        models = (THE_PAPER, *(model for model in models if model != THE_PAPER))
    return Published(figures, models, SOURCES[name])


def read_main_table() -> dict[tuple[str, str, str, str], float]:
    """The averages in the text of the paper, which the appendix prints again."""
    return _read("long-term-main")


def _read(name: str) -> dict[tuple[str, str, str, str], float]:
    text = (files("orderless.bench.published") / f"{name}.csv").read_text(encoding="utf-8")
    return {
        (row["dataset"], row["setting"], row["model"], row["metric"]): float(row["value"])
        for row in csv.DictReader(text.splitlines())
    }

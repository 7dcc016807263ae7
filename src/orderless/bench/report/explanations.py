"""What was measured, in which units and by which rule, for both pages."""

from orderless.bench.analyses import ablation, efficiency, flops, ordering, pools, scaling, transfer
from orderless.bench.grid import Grid
from orderless.bench.models.peers import PEERS
from orderless.bench.protocols import FAIR, PAPER
from orderless.bench.tables import anomaly_table, classification_table, long_term_table, m4_table

TITLE = "Tables and analyses"
INTRODUCTION = (
    "Nothing here is typed: `orderless bench report` writes this page from the files in `cells/` "
    "and from what others have printed.",
    "There are two protocols, and every heading names its own. `fair` scores all that there is to "
    "score, chooses everything on validation data, and takes scales and thresholds from training "
    "data. `paper` does what the published tables did, as far as it can be inferred from the code "
    "that they share: parts of the test data are dropped, choose the model, or set the threshold. "
    "It is there to be set beside published figures, and beside nothing else.",
    "Our own figures are means over seeds, ± their standard deviation where there is more than one "
    "seed; where data are simulated, over the seeds that all of a row have. Bold is the best of a "
    "row at the printed precision, over all columns that may be "
    "compared. The mean rank counts rows that are not averages, for each column those in which it "
    "has a figure; equals share their places. A star points to a remark below the table.",
)

VAR = (
    "One layer of each kind learns to forecast the next step of a VAR(1) process on a small-world "
    f"graph: {ordering.STEPS:,} simulated steps, in units of the spread of their training part. "
    "An epoch is timed without its validation, and the median epoch counts. The series vary about "
    "0, so MAPE is mostly that of targets near 0, and says little."
)
LAYERS = (
    "All layers have the same sizes and share the scan along time. Beside it ours has the pooled "
    "field; the ordered 2D SSM goes through the variables one after the other, in a loop over "
    "parallel steps of PyTorch; the 1D SSM, ours without coupling, lets no variables meet and has "
    "steps of its own for every variable, which costs more than one step for all."
)


def _sizes(peer: str) -> str:
    words = ", ".join(f"{name} {value}" for name, value in PEERS[peer].items())
    return f"{peer} {words.replace('_', ' ')}"


ABOUT = {
    long_term_table.NAME: "Mean errors over windows, steps and variables, in units of the spread "
    "of each variable's training rows. `orderless uncoupled` is the same network without coupling. "
    f"Networks look back {long_term_table.LOOK_BACK} steps, a ridge one of "
    f"{', '.join(map(str, long_term_table.LOOK_BACKS))}. Peers are networks of neuralforecast, "
    "trained by our loop on squared errors, on the same windows and as long as ours; nothing of "
    "them was tuned.",
    m4_table.NAME: "One forecast for each of 100,000 series. MASE is in units of the error of the "
    "seasonal naive forecast within the history; OWA is the mean of SMAPE and MASE, both relative "
    "to Naive2.",
    classification_table.NAME: "The archive's own training and test cases. `orderless` cannot tell "
    "one variable from another; `orderless identified` knows which is which, as others do.",
    anomaly_table.NAME: "No label is seen before the test. A random score shows what a metric "
    "gives to no skill at all.",
    ordering.NAME: f"{VAR} {LAYERS} There are {ordering.VARIABLES} variables, as they come and in "
    f"{ordering.PERMUTATIONS} other orders, all with one seed, so with the same initial weights "
    "and batches: ± is the spread over the orders. The largest change of a forecast is that of any "
    "entry of the test part; without an order to know of, it is rounding.",
    scaling.NAME: f"{VAR} {LAYERS}",
    ablation.NAME: f"`{ablation.WHOLE}` has the settings of `orderless` in the long-term table; "
    "every other column changes one thing: a branch left out, other steps of the spectral branch, "
    "another pool, no coupling. A CPU and a GPU draw other numbers from the same seed, so a figure "
    "here may differ from one there as two seeds do.",
    efficiency.NAME: "Training steps of one layer on random series of length 256, 16 windows a "
    f"step; an epoch is {efficiency.STEPS_AN_EPOCH} times the median of 10 steps, after two that "
    f"are not counted. {LAYERS} On a GPU a step of few variables takes as long as it takes to "
    "launch it, whatever their number.",
    flops.NAME: "The paper's setting: look-back 96, horizon 720, 16 windows. Operations are those "
    "of matrix products and convolutions, two for each multiplication; memory is that of all "
    "tensors, weights included. PatchTST and iTransformer have the sizes that they have in the "
    f"long-term table: {_sizes('PatchTST')}; {_sizes('iTransformer')}.",
    pools.NAME: "Forward and backward passes of our layer on random features: one window of 64 "
    "steps, 32 channels, 8 states; the median of 5 after one that is not counted, which compiles. "
    "On a GPU the time is that of launching them until there are many variables: what a pool costs "
    "is seen in the memory.",
    transfer.NAME: "Every second variable of a set is kept from `fit`, and forecast all the same; "
    "beside it stands a model fitted on all. Units as in the long-term table.",
}
_EVERY_WINDOW = (
    "Every test window is scored; look-back, penalty and epoch are chosen on validation."
)
_FULL_BATCHES = (
    "Test windows after the last full batch of 512 are dropped, and the look-back is the one with "
    "the least test error."
)
RULES = {
    (long_term_table.NAME, FAIR): _EVERY_WINDOW,
    (long_term_table.NAME, PAPER): _FULL_BATCHES,
    (ablation.NAME, FAIR): _EVERY_WINDOW,
    (ablation.NAME, PAPER): _FULL_BATCHES,
    (transfer.NAME, FAIR): _EVERY_WINDOW,
    (m4_table.NAME, FAIR): "The last steps of each history choose the epoch.",
    (m4_table.NAME, PAPER): "The test file chooses the epoch.",
    (classification_table.NAME, FAIR): "A fifth of the training cases chooses; training cases set "
    "the scale of both parts.",
    (classification_table.NAME, PAPER): "The test cases choose the epoch, by accuracy, and are "
    "scaled by themselves.",
    (anomaly_table.NAME, FAIR): "One model for each system, and the mean over the systems. F1 is "
    "that of a threshold from training rows that were held out.",
    (anomaly_table.NAME, PAPER): "The systems of a set are joined to one series. The score of a "
    "network is its squared error, the mean over the variables. Windows of 100 moments are counted "
    "one after the other, overlapping ones as well (SMD has none). Training and test scores "
    "together set the threshold, and one hit within a true segment finds all of it.",
}


def explain(grid: Grid) -> str:
    """What the figures of a table are, and what its protocol did to get them."""
    rule = RULES.get((grid.table.name, grid.protocol), "")
    return f"{ABOUT[grid.table.name]} {rule}".strip()

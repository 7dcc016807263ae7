"""How well anomalies were found: labels [time] with an alarm [time] or with a score [time].

A *segment* is a run of consecutive labels. Labels without a single anomaly raise `DataError`,
since nothing could be found. An alarm that never rings scores 0.
"""


def point_f1(labels, alarm) -> float:
    """F1 over time steps, each counted alike."""
    raise NotImplementedError


def point_adjusted_f1(labels, alarm) -> float:
    """F1 over time steps after one hit within a true segment marks the whole segment as found.

    Kept for comparison with published tables only: a random alarm scores high under it.
    """
    raise NotImplementedError


def affiliation_f1(labels, alarm) -> float:
    """F1 of affiliation precision and recall (Huet et al. 2022).

    Time is cut into zones, each the times nearest to one true segment. Within a zone, the distance
    of each alarm to the segment (precision), and of each true time to the nearest alarm (recall),
    is compared with that of a uniformly random alarm; both are averaged over the zones.
    """
    raise NotImplementedError


def range_f1(labels, alarm, *, existence_weight: float = 0.2) -> float:
    """F1 of range-based precision and recall (Tatbul et al. 2018), flat bias, reciprocal count.

    A true segment earns `existence_weight` for being hit at all, and the rest for the share that is
    covered, divided by the number of alarms that cover it. Precision is the covered share of each
    alarm, divided by the number of true segments it touches.
    """
    raise NotImplementedError


def auc_pr(labels, score) -> float:
    """Average precision: the area under the precision-recall steps, every distinct score used."""
    raise NotImplementedError


def vus_pr(labels, score, *, longest_buffer: int = 100, thresholds: int = 250) -> float:
    """The volume under the surface of precision and recall (Paparrizos et al. 2022).

    For each buffer from 0 to `longest_buffer` steps, labels fade out over half a buffer on both
    sides of every segment, and the range-based area under the precision-recall curve is taken over
    `thresholds` quantiles of the score; the result is the mean over buffers, as TSB-AD computes it.
    `longest_buffer` is customarily the period of the series.
    """
    raise NotImplementedError

"""Members that detect anomalies, a file each; how their errors become scores."""

from orderless.models.detection.events import Event, find_events
from orderless.models.detection.fit import KINDS, MEMBERS, FittedStack, check_members, fit_stack
from orderless.models.detection.inputs import (
    FAR,
    find_members,
    follow_level,
    level_at,
    level_stride,
    to_batch,
)
from orderless.models.detection.scores import (
    Units,
    combine,
    learn_factors,
    learn_threshold,
    learn_thresholds,
    to_scores,
)
from orderless.models.detection.windows import (
    DetectionWindows,
    check_part,
    cut_detection_windows,
)

__all__ = [
    "FAR",
    "KINDS",
    "MEMBERS",
    "DetectionWindows",
    "Event",
    "FittedStack",
    "Units",
    "check_members",
    "check_part",
    "combine",
    "cut_detection_windows",
    "find_events",
    "find_members",
    "fit_stack",
    "follow_level",
    "learn_factors",
    "learn_threshold",
    "learn_thresholds",
    "level_at",
    "level_stride",
    "to_batch",
    "to_scores",
]

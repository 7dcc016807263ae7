"""Members that detect anomalies, a file each; how their errors become scores."""

from orderless.models.detection.calibration import Calibration, HeldOut
from orderless.models.detection.events import Event, find_events
from orderless.models.detection.fit import KINDS, MEMBERS, FittedStack, check_members, fit_stack
from orderless.models.detection.inputs import (
    around_levels,
    choose_adapt,
    find_members,
    follow_level,
    learn_transform,
    level_at,
    level_stride,
    to_batch,
)
from orderless.models.detection.scores import combine, to_scores
from orderless.models.detection.windows import (
    DetectionWindows,
    check_part,
    cut_detection_windows,
)

__all__ = [
    "KINDS",
    "MEMBERS",
    "Calibration",
    "DetectionWindows",
    "Event",
    "FittedStack",
    "HeldOut",
    "around_levels",
    "check_members",
    "check_part",
    "choose_adapt",
    "combine",
    "cut_detection_windows",
    "find_events",
    "find_members",
    "fit_stack",
    "follow_level",
    "learn_transform",
    "level_at",
    "level_stride",
    "to_batch",
    "to_scores",
]

"""Members that detect anomalies, a file each; how their errors become scores."""

from orderless.models.detection.calibration import Calibration, HeldOut
from orderless.models.detection.events import Event, find_events
from orderless.models.detection.fit import KINDS, MEMBERS, FittedStack, check_members, fit_stack
from orderless.models.detection.inputs import (
    choose_adapt,
    follow_level,
    learn_transform,
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
    "check_members",
    "check_part",
    "choose_adapt",
    "combine",
    "cut_detection_windows",
    "find_events",
    "fit_stack",
    "follow_level",
    "learn_transform",
    "to_batch",
    "to_scores",
]

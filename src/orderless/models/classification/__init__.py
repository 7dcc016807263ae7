"""The members of `Classifier`, and the plan by which they are fitted and weighed."""

from orderless.models.classification.cases import Cases, Target, answer, numbers_of
from orderless.models.classification.closed_form import ClosedForm, CommonestClass, CrossFitted
from orderless.models.classification.fit import (
    CLOSED,
    NETWORK,
    FittedStack,
    Held,
    NetworkPlan,
    affordable_epochs,
    build_task,
    check_members,
    fit_closed_forms,
    fit_stack,
    judge,
    train_network,
)
from orderless.models.classification.network import ClassificationTask, NetworkClassifier

KINDS = {one.kind: one for one in (CommonestClass, ClosedForm, NetworkClassifier)}
"""The class of each kind of member, to load it."""

__all__ = [
    "CLOSED",
    "KINDS",
    "NETWORK",
    "Cases",
    "ClassificationTask",
    "CrossFitted",
    "FittedStack",
    "Held",
    "NetworkPlan",
    "Target",
    "affordable_epochs",
    "answer",
    "build_task",
    "check_members",
    "fit_closed_forms",
    "fit_stack",
    "judge",
    "numbers_of",
    "train_network",
]

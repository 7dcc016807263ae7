"""What scikit-learn asks of an estimator; imported only when it asks."""

from dataclasses import replace

from sklearn.utils import (
    ClassifierTags,  # pyrefly: ignore
    InputTags,  # pyrefly: ignore
    Tags,  # pyrefly: ignore
    TargetTags,  # pyrefly: ignore
)


def series_tags() -> Tags:
    """An estimator of two- and three-dimensional arrays that takes missing values."""
    return Tags(
        estimator_type=None,
        target_tags=TargetTags(required=False),
        input_tags=InputTags(two_d_array=True, three_d_array=True, allow_nan=True),
    )


def classifier_tags() -> Tags:
    """The same for a classifier."""
    return replace(
        series_tags(),
        estimator_type="classifier",
        target_tags=TargetTags(required=True),
        classifier_tags=ClassifierTags(),
    )

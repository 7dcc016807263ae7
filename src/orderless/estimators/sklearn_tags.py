"""What scikit-learn asks of an estimator; imported only when it asks."""

from sklearn.utils import (
    ClassifierTags,  # pyrefly: ignore
    InputTags,  # pyrefly: ignore
    Tags,  # pyrefly: ignore
    TargetTags,  # pyrefly: ignore
)


def classifier_tags() -> Tags:
    """A classifier of two- and three-dimensional arrays that takes missing values."""
    return Tags(
        estimator_type="classifier",
        target_tags=TargetTags(required=True),
        classifier_tags=ClassifierTags(),
        input_tags=InputTags(two_d_array=True, three_d_array=True, allow_nan=True),
    )

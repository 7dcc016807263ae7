"""A multivariate series is a set of variables along time.

Every layer treats the variables as a set and time as an order: shuffle, add, drop or mask
variables after training, and the same model still works.
"""

from typing import Any

__version__ = "0.1.0"
__all__ = ["Classifier", "Detector", "Forecaster", "__version__", "load"]


def __getattr__(name: str) -> Any:
    """Import the estimators, and torch with them, when the first one is asked for."""
    if name in __all__:
        from orderless import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module 'orderless' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

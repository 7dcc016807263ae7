"""Every error a user can meet. Each message says what is wrong, where, and what to do next."""


class OrderlessError(Exception):
    """The parent of all errors that this library raises on purpose."""


class ShapeError(OrderlessError, ValueError):
    """Two sizes that must agree do not."""


class ValueRangeError(OrderlessError, ValueError):
    """A number lies where the mathematics does not hold: a growing rate, a negative step."""


class DtypeError(OrderlessError, TypeError):
    """A tensor has a dtype, or lies on a device, that the operation cannot use."""


class FormUnavailable(OrderlessError, RuntimeError):
    """A form of an operator was asked for by name and cannot run this call."""


class ModelFileError(OrderlessError, ValueError):
    """A saved model or checkpoint is damaged, foreign, or belongs to something else."""


class NothingToCertify(OrderlessError, ValueError):
    """A model holds no layer whose dynamics a certificate could describe."""


class DataError(OrderlessError, ValueError):
    """A table, an array or a file cannot be read as a multivariate series."""


class SettingError(OrderlessError, ValueError):
    """A setting has a value that does not exist, or two settings do not go together."""


class NotFittedError(OrderlessError, ValueError, AttributeError):
    """An estimator was asked for something it can only know after `fit`."""


class VariableMismatch(OrderlessError, ValueError):
    """With `strict_variables=True`: the variables differ from those of `fit`."""


class DownloadError(OrderlessError, OSError):
    """A file could not be fetched from its public address, or is not what it should be."""

"""How often a class was named rightly."""


def accuracy(actual, predicted) -> float:
    """The share of cases whose predicted class is the actual one."""
    raise NotImplementedError

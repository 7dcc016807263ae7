"""A multivariate series is a set of variables along time.

Every layer treats the variables as a set and time as an order: shuffle, add, drop or mask
variables after training, and the same model still works.
"""

__version__ = "0.1.0"

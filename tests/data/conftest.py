import pytest

from orderless.data import csv_files, files


@pytest.fixture(params=["polars", "pandas", "pyarrow", None], ids=str)
def library(request, monkeypatch):
    """The only frame library that is installed, as far as reading goes."""
    for module in (csv_files, files):
        monkeypatch.setattr(module, "find_spec", lambda name: name == request.param or None)
    return request.param

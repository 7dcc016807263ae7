import pytest


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty data folder."""
    data = tmp_path / "data"
    data.mkdir()
    monkeypatch.setenv("ORDERLESS_DATA", str(data))
    return data

import pytest
from scan_cases import Case, build, results

from orderless.ops import chunked
from orderless.ops.recurrence import run_plain


@pytest.mark.parametrize("entries", [1, 80, 160, 1000])
@pytest.mark.parametrize("strided", [False, True])
def test_how_many_rows_are_worked_on_together_changes_nothing(monkeypatch, entries, strided):
    """From row by row, over blocks that end unevenly within a batch entry, to several entries."""
    call = build(Case(batch=5, variables=7, time=40, heads=2, strided=strided))

    def run(call):
        return run_plain(call, chunked.solve)

    monkeypatch.setattr(chunked, "ENTRIES", 10**6)
    expected = results(call, run)
    monkeypatch.setattr(chunked, "ENTRIES", entries)
    for name, value in results(call, run).items():
        assert (value - expected[name]).norm() <= 1e-12 * expected[name].norm(), name

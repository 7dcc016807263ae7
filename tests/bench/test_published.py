import pytest

from orderless.bench.datasets.catalogue import ANOMALY_SETS, LONG_TERM_SETS, PAPER_UEA_SETS
from orderless.bench.published import THE_PAPER, read_main_table, read_published, sources
from orderless.bench.registry import find_table


def test_the_long_term_table_is_complete():
    published = read_published("long-term", "paper")
    assert published.models[0] == THE_PAPER
    assert len(published.models) == 14
    for dataset in LONG_TERM_SETS:
        for setting in ("96", "192", "336", "720", "average"):
            for metric in ("mse", "mae"):
                assert (dataset, setting, THE_PAPER, metric) in published.figures
    assert published.figures["ETTh1", "336", THE_PAPER, "mse"] == 0.385
    assert published.figures["Exchange", "720", THE_PAPER, "mae"] == 0.580
    # Two columns lack a set each: five rows of two metrics.
    assert len(published.figures) == 8 * 5 * 14 * 2 - 2 * 10


def test_the_other_tables_are_complete():
    m4 = read_published("m4", "paper")
    assert len(m4.figures) == 5 * 3 * 16
    classes = read_published("classification", "paper")
    assert {dataset for dataset, *_ in classes.figures} == {*PAPER_UEA_SETS, "average"}
    assert len(classes.figures) == 11 * 18
    anomalies = read_published("anomaly", "paper")
    assert {dataset for dataset, *_ in anomalies.figures} == {*ANOMALY_SETS, "average"}
    assert len(anomalies.figures) == 22 * 16


def test_every_published_table_names_its_source():
    for table in ("long-term", "m4", "classification", "anomaly"):
        assert read_published(table, "paper").source
    assert "DUET" in read_published("long-term", "fair").source


def test_a_table_that_nobody_has_printed_is_empty():
    published = read_published("anomaly", "fair")
    assert (published.figures, published.models, published.source) == ({}, (), "")


def test_the_main_table_is_kept_apart():
    figures = read_main_table()
    assert figures["ETTm2", "main table", THE_PAPER, "mae"] == pytest.approx(0.317)
    appendix = read_published("long-term", "paper").figures
    assert appendix["ETTm2", "average", THE_PAPER, "mae"] == pytest.approx(0.318)


def test_the_figures_of_the_analyses_are_complete():
    assert len(read_published("ordering", "fair").figures) == 2 * 2 * 3
    assert len(read_published("scaling", "fair").figures) == 2 * 5 * 3
    assert len(read_published("ablation", "paper").figures) == 7 * 2 * 2
    costs = read_published("flops", "fair")
    assert costs.figures["random series", "321 variables", THE_PAPER, "gigaflops"] == 11.99
    assert len(costs.figures) == 5 * 2
    assert all(read_published(name, "fair").source for name in ("ordering", "scaling", "flops"))


def test_no_published_column_has_the_name_of_a_measured_one():
    for about in sources().values():
        names = set(read_published(about["table"], about["protocol"]).models)
        assert not names & set(find_table(about["table"]).models)

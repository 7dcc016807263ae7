import numpy as np

from orderless.bench.protocols.classification_rules import scale_cases, selection_cases

GENERATOR = np.random.default_rng(0)
TRAIN = GENERATOR.normal(3.0, 2.0, (20, 2, 10))
TEST = GENERATOR.normal(5.0, 4.0, (30, 2, 10))
TRAIN[3, :, 7:] = np.nan
TEST[4, :, 5:] = np.nan
NAME = "Heartbeat"
LABELS = np.array(["a"] * 10 + ["b"] * 9 + ["c"])


def test_fair_scales_both_parts_by_the_training_cases():
    train, test = scale_cases(TRAIN, TEST, "fair", NAME)
    np.testing.assert_allclose(np.nanmean(train, (0, 2)), 0.0, atol=1e-12)
    assert (np.abs(np.nanmean(test, (0, 2))) > 0.5).all()
    same_train, moved = scale_cases(TRAIN, TEST + 100, "fair", NAME)
    np.testing.assert_array_equal(train, same_train)
    assert (np.nan_to_num(moved - test, nan=1.0) > 0.5).all()


def test_a_constant_is_not_scaled_by_its_rounding():
    train, test = scale_cases(np.full((20, 1, 50), 0.1), np.full((3, 1, 50), 0.3), "fair", NAME)
    np.testing.assert_allclose(train, 0.0, atol=1e-12)
    np.testing.assert_allclose(test, 0.2)


def test_the_paper_scales_the_test_cases_by_themselves():
    _, test = scale_cases(TRAIN, TEST, "paper", NAME)
    _, moved = scale_cases(TRAIN, TEST + 100, "paper", NAME)
    np.testing.assert_allclose(test, moved, atol=1e-10)


def test_what_has_ended_stays_missing_in_fair_and_is_zero_in_the_paper():
    fair, _ = scale_cases(TRAIN, TEST, "fair", NAME)
    paper, _ = scale_cases(TRAIN, TEST, "paper", NAME)
    np.testing.assert_array_equal(np.isnan(fair), np.isnan(TRAIN))
    assert (paper[3, :, 7:] == 0).all()


def test_the_paper_scales_each_case_of_one_set_by_itself():
    by_set = scale_cases(TRAIN, TEST, "paper", NAME)[1]
    by_case = scale_cases(TRAIN, TEST, "paper", "EthanolConcentration")[1]
    for case, ended in ((0, 10), (4, 5)):
        rows = by_set[case, :, :ended].T
        rows = rows - rows.mean(0)
        expected = rows / np.sqrt(rows.var(1, keepdims=True) + 1e-5)
        np.testing.assert_allclose(by_case[case, :, :ended].T, expected)
    assert (by_case[4, :, 5:] == 0).all()
    fair = [scale_cases(TRAIN, TEST, "fair", name)[1] for name in (NAME, "EthanolConcentration")]
    np.testing.assert_array_equal(*fair)


def test_fair_holds_out_training_cases_of_each_class():
    learn, choose = selection_cases(LABELS, "fair", seed=0)
    assert sorted([*learn, *choose]) == list(range(20))
    assert sorted(LABELS[choose]) == ["a", "a", "b"]
    other = selection_cases(LABELS, "fair", seed=1)[1]
    again = selection_cases(LABELS, "fair", seed=0)[1]
    assert choose.tolist() == again.tolist() != other.tolist()


def test_the_paper_chooses_on_the_test_set():
    learn, choose = selection_cases(LABELS, "paper", seed=0)
    assert learn.tolist() == list(range(20))
    assert choose is None

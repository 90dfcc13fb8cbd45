"""Tables of the documents quote the committed results."""

import re

import pytest

from experiments.tests import quoted_rows
from experiments.tests.documents import (
    README,
    ROOT,
    assert_quoted,
    document_with,
    documents,
    quoted_numbers,
    results,
    unexpected_rows,
)

TABLES = {
    "paper": quoted_rows.paper_rows,
    "paper, fit times": quoted_rows.paper_time_rows,
    "paper, further readings": quoted_rows.paper_reading_rows,
    "paper, limits on UMIST": quoted_rows.umist_limit_rows,
    "comparison": quoted_rows.comparison_rows,
    "comparison, README": quoted_rows.headline_rows,
    "comparison, probabilities": quoted_rows.probability_rows,
    "default model": quoted_rows.default_model_rows,
    "discriminant rescaling": quoted_rows.discriminant_rows,
    "constants of the default model": quoted_rows.defaults_rows,
    "speed, digits": lambda: quoted_rows.speed_rows("digits"),
    "speed, raw digits": lambda: quoted_rows.speed_rows("raw-digits"),
    "speed, 10,000 samples": lambda: quoted_rows.speed_rows("ten-thousand"),
    "speed, a million samples": quoted_rows.large_fit_rows,
    "predictions": quoted_rows.prediction_rows,
    "solvers": quoted_rows.solver_rows,
    "scaling": quoted_rows.scaling_rows,
    "recall": quoted_rows.recall_rows,
    "devices": quoted_rows.device_rows,
    "collection": quoted_rows.collection_rows,
    "large collection": quoted_rows.large_collection_rows,
    "page": quoted_rows.page_rows,
    "cluster": quoted_rows.cluster_rows,
    "photographs": quoted_rows.photo_rows,
    "fine-tuning": quoted_rows.finetuning_rows,
    "fine-tuning, losses": quoted_rows.loss_rows,
    "cross-fitting": quoted_rows.cross_fitting_rows,
    "active choice": quoted_rows.active_choice_rows,
    "comparisons": quoted_rows.comparisons_rows,
    "comparisons and grades": quoted_rows.comparisons_and_grades_rows,
}


@pytest.mark.parametrize("name", TABLES)
def test_documents_quote_the_committed_results(name):
    assert_quoted(list(TABLES[name]()))


def test_tables_of_results_have_no_other_rows():
    """A stale row does not remain beside the rows that are quoted."""
    assert not list(unexpected_rows([row for rows in TABLES.values() for row in rows()]))


@pytest.mark.parametrize(
    ("rows", "figures"),
    [
        (quoted_rows.paper_rows, quoted_rows.paper_figures),
        (quoted_rows.cluster_rows, quoted_rows.cluster_figures),
    ],
    ids=["paper", "cluster"],
)
def test_figures_in_the_text_are_the_committed_ones(rows, figures):
    text = " ".join(document_with(next(rows())).split())
    for figure in figures():
        assert re.search(rf"(?<![\d.]){re.escape(figure)}(?!\d)", text), figure


@pytest.mark.parametrize("page", documents(), ids=lambda page: page.name)
def test_numbers_with_a_source_are_the_committed_ones(page):
    wrong = [
        f"{shown} should be {expected}" for shown, expected in quoted_numbers(documents()[page]) if shown != expected
    ]
    assert not wrong


@pytest.mark.parametrize("page", [README, ROOT / "docs" / "comparison.md", ROOT / "docs" / "speed.md"])
def test_pages_of_results_have_numbers_with_a_source(page):
    assert len(list(quoted_numbers(documents()[page]))) >= 3


def test_every_comment_with_a_source_follows_a_number():
    for page, text in documents().items():
        comments = re.findall(r"<!--\s*\w+:\s", text)
        assert len(comments) == len(list(quoted_numbers(text))), page


def test_quoted_numbers_have_the_digits_shown():
    lowest, conditions = results("compare")["summary"]["lowest"], len(results("compare")["summary"]["conditions"])
    text = "In 16<!-- compare: summary.lowest --> of\n7.0<!--compare:length(\n summary.conditions)-->, 5 of 9."
    assert list(quoted_numbers(text)) == [("16", str(lowest)), ("7.0", f"{conditions:.1f}")]
    text = ".13<!-- solvers: `0.125` -->; 12.5<!-- solvers: `0.125` --> %; 1,000<!-- solvers: `1000` -->"
    assert list(quoted_numbers(text)) == [(".13", ".12"), ("12.5", "12.5"), ("1,000", "1,000")]
    with pytest.raises(AssertionError, match="is None, not a number"):
        list(quoted_numbers("1<!-- compare: summary.missing -->"))


def test_documents_have_no_placeholders():
    for page, text in documents().items():
        assert not re.search(r"@[A-Z]+@", text), page

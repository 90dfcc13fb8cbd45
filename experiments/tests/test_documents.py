"""Tables of the documents quote the committed results."""

import re

import pytest

from experiments.tests import quoted_rows
from experiments.tests.documents import assert_quoted, document_with, documents, unexpected_rows

TABLES = {
    "paper": quoted_rows.paper_rows,
    "paper, fit times": quoted_rows.paper_time_rows,
    "paper, further readings": quoted_rows.paper_reading_rows,
    "paper, limits on UMIST": quoted_rows.umist_limit_rows,
    "comparison": quoted_rows.comparison_rows,
    "comparison, README": quoted_rows.headline_rows,
    "default model": quoted_rows.default_model_rows,
    "discriminant rescaling": quoted_rows.discriminant_rows,
    "constants of the default model": quoted_rows.defaults_rows,
    "speed, digits": lambda: quoted_rows.speed_rows("digits"),
    "speed, raw digits": lambda: quoted_rows.speed_rows("raw-digits"),
    "speed, 10,000 samples": lambda: quoted_rows.speed_rows("ten-thousand"),
    "speed, a million samples": quoted_rows.large_fit_rows,
    "solvers": quoted_rows.solver_rows,
    "scaling": quoted_rows.scaling_rows,
    "recall": quoted_rows.recall_rows,
    "devices": quoted_rows.device_rows,
    "collection": quoted_rows.collection_rows,
    "page": quoted_rows.page_rows,
    "cluster": quoted_rows.cluster_rows,
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


def test_documents_have_no_placeholders():
    for page, text in documents().items():
        assert not re.search(r"@[A-Z]+@", text), page

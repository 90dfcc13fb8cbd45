"""Tables of the documents quote the committed results."""

import re

import pytest

from experiments.tests import quoted_rows
from experiments.tests.documents import README, assert_quoted, document_with, documents, matches, table_rows

TABLES = {
    "paper": quoted_rows.paper_rows,
    "paper, fit times": quoted_rows.paper_time_rows,
    "paper, limits on UMIST": quoted_rows.umist_limit_rows,
    "comparison": quoted_rows.comparison_rows,
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


def test_figures_in_the_text_on_clusters_are_the_committed_ones():
    text = " ".join(document_with(next(quoted_rows.cluster_rows())).split())
    for figure in quoted_rows.cluster_figures():
        assert re.search(rf"(?<![\d.]){re.escape(figure)}(?!\d)", text), figure


def test_rows_of_the_readme_do_not_contradict_the_committed_results():
    """A README row that begins like rows of these tables is one of them."""
    names = ("paper", "comparison", "speed, 10,000 samples")
    quoted = [row for name in names for row in TABLES[name]() if row[0] is not None]
    for row in table_rows(README.read_text()):
        alike = [one for one in quoted if len(one) == len(row) and one[0] == row[0]]
        assert not alike or any(matches(row, one) for one in alike), row


def test_documents_have_no_placeholders():
    for page, text in documents().items():
        assert not re.search(r"@[A-Z]+@", text), page

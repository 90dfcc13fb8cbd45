"""Cells of CSV files that spreadsheet programs do not take for formulas."""

from __future__ import annotations

import re
from collections.abc import Iterable

# An apostrophe makes a cell text. One that begins with apostrophes gets another, so that reading removes only that.
_FORMULA = re.compile(r"'*[=+\-@\t\r]")


def escape_formulas(cells: Iterable[object]) -> list[object]:
    """Return cells of which no spreadsheet interprets one as a formula; numbers stay numbers."""
    return [f"'{cell}" if isinstance(cell, str) and _is_formula(cell) else cell for cell in cells]


def unescape_formula(cell: str) -> str:
    """Return a cell as it was before :func:`escape_formulas`."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def _is_formula(text: str) -> bool:
    if not _FORMULA.match(text):
        return False
    try:
        float(text)
    except ValueError:
        return True
    return False

"""A terminal that tables are printed on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ordrank.cli.terminal import one_line, showable

BAR_WIDTH = 30
NARROW = 64  # columns; in fewer, names do not fit beside all numbers
_EIGHTHS = ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")


class Screen:
    """A terminal that tables are printed on; names are shown as they are, whatever is in them.

    Parameters
    ----------
    console : Console
    """

    def __init__(self, console: Console) -> None:
        self.console = console

    def text(self, words: str, style: str = "") -> Text:
        """Return a text that is not read as markup and breaks no line."""
        return Text(showable(self.console, one_line(words)), style=style, overflow="fold")

    def print(self, words: str, style: str = "") -> None:
        """Print a sentence, unbroken, so that paths and commands in it can be copied."""
        self.console.print(self.text(words, style), soft_wrap=True)

    def facts(self, facts: Mapping[str, str | Table]) -> None:
        """Print names of facts beside the facts."""
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column()
        for name, fact in facts.items():
            grid.add_row(self.text(name), self.text(fact) if isinstance(fact, str) else fact)
        self.console.print(grid)

    def table(self, head: Sequence[str], rows: Iterable[Sequence[Text]], left: Sequence[int] = (0,)) -> Table:
        """Make a table whose columns are numbers, but for those in ``left``."""
        table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
        for position, title in enumerate(head):
            justify: Any = "left" if position in left else "right"
            # Names give way to numbers, but in a narrow terminal nothing is cut off.
            fixed = position not in left and self.console.width >= NARROW
            table.add_column(self.text(title), justify=justify, overflow="fold", no_wrap=fixed)
        for row in rows:
            table.add_row(*row)
        return table

    def bars(self, rows: Sequence[tuple[str, float, str]], *, chosen: str | None = None) -> Table:
        """Bars with their names and values; lengths are shares of one."""
        grid = Table.grid(padding=(0, 2))
        for justify in ("right", "left", "right"):
            grid.add_column(justify=justify, overflow="fold")
        width = max(1, min(BAR_WIDTH, self.console.width // 3))
        for name, share, value in rows:
            style = "bold" if name == chosen else ""
            grid.add_row(self.text(name, style), self.text(bar(share, width), style or "dim"), self.text(value, style))
        return grid


def bar(share: float, width: int) -> str:
    """Draw a share of one; what is there is never shown as nothing.

    Examples
    --------
    >>> bar(0.5, 4), bar(0.001, 4), bar(0.0, 4)
    ('██', '▏', '')
    """
    full, rest = divmod(max(round(8 * width * share), 1 if share > 0 else 0), 8)
    return "█" * full + _EIGHTHS[rest]

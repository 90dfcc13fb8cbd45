"""What all commands share: errors, printing, progress."""

from __future__ import annotations

import io
import json
import math
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from ordrank._protocols import Progress
    from ordrank.cli.screen import Screen
    from ordrank.collection.reports import ImportReport
    from ordrank.collection.types import BadPicture

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
RESUMABLE = "what was read is kept, and the same command continues from there"
MAX_BAD_SHOWN = 50
_JOINERS = "\u200c\u200d"  # hold scripts and emoji together; other invisible characters could forge what is shown
# What stands for a character that the output cannot show.
_PLAIN = {"≈": "~", "█": "#", "▉": "#", "▊": "#", "▋": "#", "▌": "#", "▍": "", "▎": "", "▏": ""}
_PLAIN |= {"…": "...", "±": "+/-", "²": "^2", "τ": "tau", "↓": "", "↑": ""}


def examples(*commands: str) -> str:
    """Return the epilog of a command's help: examples, a line each, to be copied."""
    return "  \n".join(
        ["Examples:", *(f"`{command}`" for command in commands)]
    )  # two spaces are a line break in Markdown


@contextmanager
def plain_errors(on_interrupt: str = "nothing was written", *, all_bad: bool = False) -> Iterator[None]:
    """Print errors of input or disk as one sentence and exit with 1, with 130 on Ctrl-C; print warnings as one too.

    Parameters
    ----------
    on_interrupt : str
        What remains after an interrupt.
    all_bad : bool
        List every file that could not be used, however many there are.
    """
    from ordrank.errors import BadPicturesError, InputError

    try:
        with warnings.catch_warnings():
            warnings.showwarning = _print_warning
            yield
    except BadPicturesError as error:
        print_bad(error.bad, limit=None if all_bad else MAX_BAD_SHOWN)
        raise _failed(str(error)) from None
    except InputError as error:
        raise _failed(str(error)) from None
    except BrokenPipeError:
        raise  # the reader of a pipe has closed it; typer exits quietly
    except OSError as error:
        _discard_unwritten()
        raise _failed(f"{error.strerror or error}: {error.filename or ''}".rstrip(": ")) from None
    except MemoryError:
        raise _failed("there is not enough memory for this; nothing that was stored is lost") from None
    except KeyboardInterrupt:
        typer.echo(f"ordrank: interrupted; {on_interrupt}", err=True)
        raise typer.Exit(130) from None


def _discard_unwritten() -> None:
    """Discard output that cannot be written: Python would try it again at its end, and fail in its own words."""
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _print_warning(message: Warning | str, *_: object, **__: object) -> None:
    typer.echo(f"ordrank: warning: {one_line(str(message))}", err=True)


def _failed(sentence: str) -> typer.Exit:
    lines = f"ordrank: {sentence}".split("\n")  # problems of a CSV file are a line each
    typer.echo("\n".join(map(one_line, lines)), err=True)
    return typer.Exit(1)


@contextmanager
def progress_bar(*, quiet: bool) -> Iterator[Progress]:
    """Yield a callback for progress: a line on standard error for each stage, and a bar on terminals."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    log = Console(stderr=True)
    log.quiet = quiet and not log.is_terminal
    bar = Progress(BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=log, disable=not log.is_terminal)
    task = bar.add_task("", total=None, visible=False)

    def show(stage: str, done: int, total: int) -> None:
        if total:
            bar.update(task, completed=done, total=total, visible=done < total)
        else:
            log.print(showable(log, f"{stage} …"), style="dim", markup=False)

    with bar:
        yield show


def escape_unencodable_output() -> None:
    r"""Print characters that an output cannot encode as ``\u2026`` instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def console() -> Console:
    """Return the console for results."""
    from rich.console import Console

    return Console(highlight=False)


def screen() -> Screen:
    """Return the screen that tables are printed on."""
    from ordrank.cli.screen import Screen

    return Screen(console())


def showable(screen: Console, text: str) -> str:
    """Replace characters that an ASCII terminal cannot show."""
    if not screen.options.ascii_only:
        return text
    return "".join(_PLAIN.get(character, character) for character in text).strip()


def one_line(text: str) -> str:
    r"""Escape what would break a line or a terminal: a line break in a name becomes ``\n``.

    Examples
    --------
    >>> print(one_line("new\nline, \x1b[31mred, naïve 🍏"))
    new\nline, \x1b[31mred, naïve 🍏
    """
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() or character in _JOINERS else character.encode("unicode_escape").decode()
        for character in text
    )


def print_bad(bad: Sequence[BadPicture], *, limit: int | None = MAX_BAD_SHOWN) -> None:
    """List files that could not be used on standard error, a line each."""
    shown = bad if limit is None else bad[:limit]
    for picture in shown:
        typer.echo(f"{one_line(picture.name)}: {one_line(picture.reason)}", err=True)
    if len(bad) > len(shown):
        typer.echo(f"… and {len(bad) - len(shown)} more", err=True)


def print_import(report: ImportReport) -> None:
    """List what could not be used on standard error: files, and lines of the CSV file whose pictures are missing."""
    print_bad(report.bad)
    for name in report.not_found[:MAX_BAD_SHOWN]:
        typer.echo(f"{one_line(name)}: is in the CSV file, but not among the pictures", err=True)
    if len(report.not_found) > MAX_BAD_SHOWN:
        typer.echo(f"… and {len(report.not_found) - MAX_BAD_SHOWN} more", err=True)


def print_json(document: dict[str, Any]) -> None:
    """Print a document as strict JSON: no NaN, ASCII only."""
    typer.echo(json.dumps(_finite(document), indent=2, allow_nan=False))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value.item() if hasattr(value, "item") else value

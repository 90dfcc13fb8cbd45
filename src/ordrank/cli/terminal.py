"""What every command has in common: how it fails, how it prints, and how it says what it is doing."""

from __future__ import annotations

import io
import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from ordrank._types import BadPicture

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
RESUMABLE = "what was read is kept, and the same command goes on from there"
MOST_BAD_SHOWN = 50
_JOINERS = "\u200c\u200d"  # hold scripts and emoji together; other invisible characters could forge what is shown
# What stands for a sign where the output cannot show it.
_PLAIN = {"≈": "~", "█": "#", "▉": "#", "▊": "#", "▋": "#", "▌": "#", "▍": "", "▎": "", "▏": ""}
_PLAIN |= {"…": "...", "±": "+/-", "²": "^2", "τ": "tau", "↓": "", "↑": ""}


def examples(*commands: str) -> str:
    """Return what stands below the help of a command: examples of it, a line each, to be copied."""
    return "  \n".join(["Examples:", *(f"`{command}`" for command in commands)])  # two blanks: the line ends here


@contextmanager
def plain_errors(on_interrupt: str = "nothing was written", *, all_bad: bool = False) -> Iterator[None]:
    """Say in one sentence what was wrong with the input or the disk, and exit with 1; with 130 on Ctrl-C.

    Parameters
    ----------
    on_interrupt : str
        What is left behind.
    all_bad : bool
        List every file that could not be used, however many there are.
    """
    from ordrank.errors import BadPicturesError, InputError

    try:
        yield
    except BadPicturesError as error:
        print_bad(error.bad, most=None if all_bad else MOST_BAD_SHOWN)
        raise _failed(str(error)) from None
    except InputError as error:
        raise _failed(str(error)) from None
    except BrokenPipeError:
        raise  # who reads the output has seen enough, and typer ends quietly
    except OSError as error:
        raise _failed(f"{error.strerror or error}: {error.filename or ''}".rstrip(": ")) from None
    except MemoryError:
        raise _failed("there is not enough memory for this; nothing that was kept is lost") from None
    except KeyboardInterrupt:
        typer.echo(f"ordrank: interrupted; {on_interrupt}", err=True)
        raise typer.Exit(130) from None


def _failed(sentence: str) -> typer.Exit:
    lines = f"ordrank: {sentence}".split("\n")  # troubles of a table are a line each
    typer.echo("\n".join(map(one_line, lines)), err=True)
    return typer.Exit(1)


@contextmanager
def progress(*, quiet: bool) -> Iterator[tuple[Callable[[str], object], Callable[[int, int], object]]]:
    """Yield ``tell(text)`` and ``tick(done, all)``, both on standard error; a bar on terminals only."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    log = Console(stderr=True)
    log.quiet = quiet and not log.is_terminal
    bar = Progress(BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=log, disable=not log.is_terminal)
    task = bar.add_task("", total=None, visible=False)
    with bar:
        yield (
            lambda text: log.print(showable(log, f"{text} …"), style="dim", markup=False),
            lambda done, total: bar.update(task, completed=done, total=total, visible=done < total),
        )


def never_fail_to_print() -> None:
    r"""Let what an output cannot show be printed as ``\u2026`` instead of ending the command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def console() -> Console:
    """Return where results are printed."""
    from rich.console import Console

    return Console(highlight=False)


def showable(screen: Console, text: str) -> str:
    """Return a text with plainer signs where the screen has no others."""
    return text if not screen.options.ascii_only else "".join(_PLAIN.get(sign, sign) for sign in text).strip()


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
        sign if sign.isprintable() or sign in _JOINERS else sign.encode("unicode_escape").decode() for sign in text
    )


def print_bad(bad: Sequence[BadPicture], *, most: int | None = MOST_BAD_SHOWN) -> None:
    """List files that could not be used on standard error, a line each."""
    shown = bad if most is None else bad[:most]
    for picture in shown:
        typer.echo(f"{one_line(picture.name)}: {one_line(picture.reason)}", err=True)
    if len(bad) > len(shown):
        typer.echo(f"… and {len(bad) - len(shown)} more", err=True)


def print_json(document: dict[str, Any]) -> None:
    """Print a document that every reader of JSON understands: no NaN, ASCII only."""
    typer.echo(json.dumps(_finite(document), indent=2, allow_nan=False))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value.item() if hasattr(value, "item") else value

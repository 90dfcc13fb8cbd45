"""The command ``serve``: the page of a collection."""

from __future__ import annotations

import errno
import ipaddress
import socket
import sys
import webbrowser
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ordrank.cli.terminal import examples, plain_errors

commands = typer.Typer()

_ENDED = "the page is closed, and every confirmed grade is stored"
# Worker processes at most: each takes memory.
_MAX_WORKERS = 8


@commands.command(
    epilog=examples(
        "ordrank serve collection",
        "ordrank serve collection --port 0 --open",
        "ordrank serve collection --host 0.0.0.0 --token TEXT --read-only",
    )
)
def serve(
    collection: Annotated[Path, typer.Argument(help="Directory of the collection.", show_default=False)],
    host: Annotated[str, typer.Option(help="Address to listen at; 0.0.0.0 for all interfaces.")] = ("127.0.0.1"),
    port: Annotated[int, typer.Option(help="Port to listen at; 0 for any that is free.", min=0, max=65535)] = 8000,
    token: Annotated[
        str | None,
        typer.Option(help="Secret that opens the page.", envvar="ORDRANK_TOKEN", show_default=False, metavar="TEXT"),
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Reject changes of grades and training.")] = False,
    workers: Annotated[
        int | None,
        typer.Option(
            help="Worker processes; by default one for each core, at most 8.",
            min=1,
            max=64,
            show_default=False,
        ),
    ] = None,
    open_page: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in the browser.")] = False,
) -> None:
    """Serve a collection as a page in the browser: look at it, search it, correct grades, train it again.

    Ends with Ctrl-C. Other commands can change the same collection meanwhile, and the page shows it.
    """
    with plain_errors(_ENDED):
        from ordrank.errors import InputError

        if token is not None and not (token.strip() and token.isascii() and token.isprintable()):
            raise InputError("the token must consist of printable ASCII characters")
        _hide(token)
        from joblib import cpu_count

        from ordrank.collection.collection import Collection

        try:
            from ordrank.web.app import create_app
            from ordrank.web.security import LOCAL_HOSTS
            from ordrank.web.supervisor import Supervisor, can_fork, run_server, run_workers
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("ordrank"):
                raise
            raise InputError("the page needs FastAPI and uvicorn: pip install 'ordrank[web]'") from None
        listening = _listen(host, port)
        if workers is not None and workers > 1 and not can_fork():
            raise InputError("this system cannot fork processes; leave --workers out")
        hosts = None if _is_wildcard(host) else {*LOCAL_HOSTS, host.lower()}
        make_app = partial(create_app, read_only=read_only, token=token, hosts=hosts)
        workers = workers or (min(cpu_count(), _MAX_WORKERS) if can_fork() else 1)
        run: Callable[[], None]
        if workers == 1:
            run = partial(run_server, make_app(Collection(collection)), listening)
        else:
            run = partial(run_workers, Supervisor(collection, make_app, listening), workers)
        _announce(collection, listening, host, token, read_only=read_only, open_page=open_page)
        run()


def _announce(
    collection: Path, listening: socket.socket, host: str, token: str | None, *, read_only: bool, open_page: bool
) -> None:
    address = _address(listening, token)
    typer.echo(f"{collection} is served at {address}")
    typer.echo("Ctrl-C stops it", err=True)
    if token is None and not _is_local(host):
        typer.echo(
            f"ordrank: anyone who can reach {host} can see these pictures"
            f"{'' if read_only else ' and change their grades'}; --token keeps others out",
            err=True,
        )
    if open_page:
        webbrowser.open(address)


def _hide(token: str | None) -> None:
    """Remove the token from the command line, which other processes see when the collection is busy."""
    if token:
        sys.argv = [argument.replace(token, "…") for argument in sys.argv]


def _listen(host: str, port: int) -> socket.socket:
    from ordrank.errors import InputError

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=256)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise InputError(f"port {port} is taken; choose another with --port, or 0 for any that is free") from None
        raise InputError(f"cannot listen at {host}, port {port}: {error.strerror or error}") from None
    # Inherited by connections. Without it the end of each response waits 40 ms for an acknowledgement.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def _address(listening: socket.socket, token: str | None) -> str:
    host, port = listening.getsockname()[:2]
    if _is_wildcard(host):
        host = "localhost"
    shown = f"[{host}]" if ":" in host else host
    from urllib.parse import quote

    return f"http://{shown}:{port}/" + ("" if token is None else f"?token={quote(token, safe='')}")


def _is_wildcard(host: str) -> bool:
    return host in ("", "0.0.0.0", "::")


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

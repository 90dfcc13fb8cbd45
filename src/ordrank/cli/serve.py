"""The command ``serve``: the page of a collection."""

from __future__ import annotations

import errno
import ipaddress
import secrets
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
# Characters of a token at least.
_MIN_TOKEN = 16


@commands.command(
    epilog=examples(
        "ordrank serve collection",
        "ordrank serve collection --port 0 --open",
        "ordrank serve collection --host 0.0.0.0 --read-only",
        "ordrank serve collection --host 0.0.0.0 --no-token --allowed-host pictures.example",
    )
)
def serve(
    collection: Annotated[Path, typer.Argument(help="Directory of the collection.", show_default=False)],
    host: Annotated[str, typer.Option(help="Address to listen at; 0.0.0.0 for all interfaces.")] = ("127.0.0.1"),
    port: Annotated[int, typer.Option(help="Port to listen at; 0 for any that is free.", min=0, max=65535)] = 8000,
    token: Annotated[
        str | None,
        typer.Option(
            help="Secret that opens the page, of 16 characters or more; by default a new one with each start.",
            envvar="ORDRANK_TOKEN",
            show_default=False,
            metavar="TEXT",
        ),
    ] = None,
    no_token: Annotated[
        bool, typer.Option("--no-token", help="Let in everyone who can connect; beyond this machine, name its hosts.")
    ] = False,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(help="Name by which browsers may reach the server; repeatable.", show_default=False),
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

        if no_token:
            _check_is_open_on_purpose(host, token, allowed_host)
        else:
            token = token or secrets.token_urlsafe(24)
            _check_token(token)
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
        # The token keeps others out whatever the name; without one, a name of theirs could lead browsers here.
        any_host = _is_wildcard(host) and not allowed_host
        hosts = None if any_host else {*LOCAL_HOSTS, *(name.lower() for name in (host, *(allowed_host or ())))}
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
            f"{'' if read_only else ' and change their grades'}; without --no-token, others are kept out",
            err=True,
        )
    if open_page:
        webbrowser.open(address)


def _check_is_open_on_purpose(host: str, token: str | None, allowed_host: list[str] | None) -> None:
    from ordrank.errors import InputError

    if token is not None:
        raise InputError("--no-token and a token contradict each other; leave one of them out")
    if not _is_local(host) and not allowed_host:
        raise InputError(
            f"--no-token at {host} lets in everyone who reaches it; name the address they are to use with "
            "--allowed-host NAME, or leave --no-token out"
        )


def _check_token(token: str) -> None:
    from ordrank.errors import InputError

    if not (token.isascii() and token.isprintable()):
        raise InputError("the token must consist of printable ASCII characters")
    if len(token.strip()) < _MIN_TOKEN or len(set(token)) < _MIN_TOKEN // 2:
        raise InputError(
            f"the token can be guessed: it must have {_MIN_TOKEN} characters or more, {_MIN_TOKEN // 2} of them "
            "different; without --token there is a new one with each start"
        )


def _hide(token: str) -> None:
    """Remove the token from the command line, which other processes see when the collection is busy."""
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

"""The web server of the dashboard. Without a token it serves this machine only."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlencode

from deepband.errors import DeepbandError, InputError
from deepband.system.installation import install_command

ANY = ("0.0.0.0", "::")
LOCAL = ("127.0.0.1", "localhost", "::1")
VARIABLE = "DEEPBAND_TOKEN"
"""The environment variable with the token, if no option gives one."""
MIN_LENGTH = 16
"""Characters of a token, at least."""


def serve(
    place: Path,
    host: str = "127.0.0.1",
    port: int = 8377,
    token: str | None = None,
    names: Sequence[str] = (),
    say: Callable[[str], object] = print,
) -> None:
    """Serve a study or a folder of studies until interrupted. Port 0 chooses a free one."""
    check_safe(host, token)
    try:
        import uvicorn

        from deepband.interfaces.dashboard.app import make_app
    except ImportError as error:
        raise DeepbandError(
            f"the dashboard needs {error.name}: {install_command('dashboard')}"
        ) from error
    server: uvicorn.Server
    app = make_app(place, host_names(host, names), token, lambda: server.should_exit)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,  # it would contain the token
        server_header=False,
        ws="none",
        timeout_graceful_shutdown=3,
    )
    server = uvicorn.Server(config)
    with _listen(host, port) as listener, suppress(KeyboardInterrupt):
        query = f"?{urlencode({'token': token})}" if token else ""
        name = socket.gethostname() if host in ANY else f"[{host}]" if ":" in host else host
        say(f"http://{name}:{listener.getsockname()[1]}/{query}")
        server.run(sockets=[listener])


def read_token(given: str | None, file: Path | None) -> str | None:
    """The token from an option, a file or the environment; None if there is none."""
    if given is not None and file is not None:
        raise InputError("give --token or --token-file, not both.")
    if file is None:
        return given if given is not None else os.environ.get(VARIABLE) or None
    try:
        token = file.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise InputError(f"the token file {file} cannot be read: {error}.") from error
    if not token:
        raise InputError(f"the token file {file} is empty: write a secret into it.")
    return token


def check_safe(host: str, token: str | None) -> None:
    """Raise if studies would be visible to a network without a token that is hard to guess."""
    if token is not None and len(token) < MIN_LENGTH:
        raise InputError(f"the token has fewer than {MIN_LENGTH} characters: it could be guessed.")
    if token is None and not is_local(host):
        raise InputError(
            f"other machines can reach {host}, and every visitor sees all configs, results and "
            f"worker output. Put a secret into {VARIABLE} or a --token-file, or leave out --host "
            "and use an SSH tunnel."
        )


def is_local(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def host_names(host: str, more: Sequence[str] = ()) -> list[str]:
    """The host names that this server answers to. Wildcards are refused: they would allow DNS
    rebinding."""
    names = {*LOCAL, host, *more}
    if not is_local(host):
        names |= {socket.gethostname(), socket.getfqdn(), *_addresses()}
    if any("*" in name for name in names):
        raise InputError("a host name contains '*': give each host name of this server.")
    names -= set(ANY)
    return sorted(f"[{name}]" if ":" in name else name for name in names)


def _addresses() -> set[str]:
    """The addresses of this machine, as far as they are known."""
    found: set[str] = set()
    with suppress(OSError):
        found |= {str(each[4][0]) for each in socket.getaddrinfo(socket.gethostname(), None)}
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as outward:
        outward.connect(("192.0.2.1", 9))  # sends nothing: it only selects a route
        found.add(str(outward.getsockname()[0]))
    return found


def _listen(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET
        )
    except OSError as error:
        raise InputError(f"cannot listen on {host}, port {port}: {error}.") from error

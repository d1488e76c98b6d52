"""A dashboard in its own process."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from preloaded import Process, pipe


@dataclass
class Server:
    """The address and process of a dashboard."""

    url: str
    process: Process | subprocess.Popen[bytes]
    errors: IO[str]
    """What it writes to stderr."""

    @property
    def host(self) -> str:
        return urlsplit(self.url).netloc

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.host, timeout=20)

    def ask(
        self, path: str, method: str = "GET", headers: Mapping[str, str] | None = None
    ) -> tuple[http.client.HTTPResponse, bytes]:
        connection = self.connect()
        try:
            connection.request(method, path, headers=dict(headers or {}))
            answer = connection.getresponse()
            return answer, answer.read()
        finally:
            connection.close()

    def study(self) -> str:
        """The path of the page of the only study."""
        answer, _ = self.ask("/")
        return answer.headers["Location"]

    def events(self, path: str) -> Iterator[tuple[str, Any]]:
        """The endless stream of server-sent events of a study."""
        connection = self.connect()
        try:
            connection.request("GET", f"{path}/events")
            answer = connection.getresponse()
            assert answer.headers["Content-Type"].startswith("text/event-stream")
            name = ""
            for line in answer:
                text = line.decode().rstrip("\n")
                if text.startswith("event: "):
                    name = text[7:]
                elif text.startswith("data: "):
                    yield name, json.loads(text[6:])
        finally:
            connection.close()


@contextmanager
def serving(
    place: Path,
    *more: str,
    environment: Mapping[str, str] | None = None,
    from_scratch: bool = False,
) -> Iterator[Server]:
    """Serve a study or a folder on a free port. A process that is started `from_scratch` has its
    own command line in /proc."""
    arguments = ["-m", "deepband", "serve", str(place), "--port", "0", *more]
    variables = {**os.environ, **(environment or {})}
    (output, stdout), (errors, stderr) = pipe(), pipe()
    process: Process | subprocess.Popen[bytes]
    with stdout, stderr:
        if from_scratch:
            command = [sys.executable, *arguments]
            process = subprocess.Popen(command, stdout=stdout, stderr=stderr, env=variables)
        else:
            process = Process(arguments, stdout=stdout, stderr=stderr, env=variables)
    with output, errors, process:
        try:
            yield Server(output.readline().strip(), process, errors)
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(timeout=20)
            finally:
                process.kill()  # otherwise a server that hangs would be waited for forever

"""The routes of the dashboard. Studies are looked up by id, never by a path from a request."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route

from deepband.analysis.text import printable
from deepband.errors import DeepbandError, InputError
from deepband.interfaces.dashboard.config_page import config_page
from deepband.interfaces.dashboard.evaluation_list import Query, listing
from deepband.interfaces.dashboard.guard import Guard
from deepband.interfaces.dashboard.watchlist import Watched, Watchlist

POLL_SECONDS = 0.5
KEEP_ALIVE_SECONDS = 15.0
"""Something is sent at least this often, so that a closed connection is noticed."""
STATIC = {
    "style.css": "text/css",
    "dom.js": "text/javascript",
    "study.js": "text/javascript",
    "brackets.js": "text/javascript",
    "charts.js": "text/javascript",
    "confirmations.js": "text/javascript",
    "parameters.js": "text/javascript",
    "studies.js": "text/javascript",
    "failures.js": "text/javascript",
    "front.js": "text/javascript",
    "table.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}


def make_app(
    place: Path,
    hosts: Sequence[str],
    token: str | None = None,
    is_ending: Callable[[], bool] = lambda: False,
) -> Guard:
    """An application that shows a study or a folder of studies, and answers to these host names.
    Open event streams end when `is_ending` returns True."""
    pages = Pages(Watchlist(place), is_ending)
    app = Starlette(
        routes=[
            Route("/", pages.studies),
            Route("/studies/{study}", pages.study),
            Route("/studies/{study}/events", pages.events),
            Route("/studies/{study}/evaluations", pages.evaluations),
            Route("/studies/{study}/importance", pages.importance),
            Route("/studies/{study}/configs/{bracket:int}/{index:int}", pages.config),
            Route("/static/{name}", static),
        ],
        middleware=[
            Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False),
        ],
        exception_handlers={DeepbandError: _error},
    )
    return Guard(app, token)


def _error(_: Request, error: Exception) -> Response:
    status = 400 if isinstance(error, InputError) else 503
    return PlainTextResponse(printable(str(error)), status)


def static(request: Request) -> Response:
    """A script, the stylesheet or the icon."""
    name = request.path_params["name"]
    if name not in STATIC:
        raise HTTPException(404)
    return Response((files(__package__) / "static" / name).read_bytes(), media_type=STATIC[name])


class Pages:
    """The responses of the dashboard."""

    def __init__(self, watchlist: Watchlist, is_ending: Callable[[], bool]) -> None:
        self._watchlist = watchlist
        self._is_ending = is_ending
        loader = PackageLoader(__package__)
        self._templates = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
        self._templates.filters["printable"] = lambda text: printable(str(text))

    def _page(self, template: str, **values: Any) -> HTMLResponse:
        return HTMLResponse(self._templates.get_template(template).render(**values))

    def _find(self, request: Request) -> Watched:
        watched = self._watchlist.find(request.path_params["study"])
        if watched is None:
            raise HTTPException(404)
        return watched

    def studies(self, _: Request) -> Response:
        """The list of studies, or a redirect if only one is served."""
        watched = self._watchlist.studies()
        if not self._watchlist.place.is_dir():
            return RedirectResponse(f"/studies/{watched[0].id}", 303)
        place = self._watchlist.place
        return self._page("studies.html", place=place, studies=[_listed(each) for each in watched])

    def study(self, request: Request) -> Response:
        """The page of a study, which loads its content from `events` and `evaluations`."""
        watched = self._find(request)
        many = self._watchlist.place.is_dir()
        return self._page("study.html", id=watched.id, name=watched.name, many=many)

    def evaluations(self, request: Request) -> Response:
        """One page of the table of evaluations."""
        query = Query.read(request.query_params)
        watched = self._find(request)
        return JSONResponse(watched.read(lambda state: listing(state, query)))

    def importance(self, request: Request) -> Response:
        """Which parameters matter. It is computed now and then, so not part of `events`."""
        return JSONResponse(self._find(request).importance())

    def config(self, request: Request) -> Response:
        """A config, the decisions about it, and the output of its workers."""
        watched = self._find(request)
        place = request.path_params["bracket"], request.path_params["index"]
        found = watched.read(lambda state: config_page(state, *place))
        if found is None:
            raise HTTPException(404)
        outputs = {rung: watched.output((*place, rung)) for rung in found["rungs"]}
        return self._page("config.html", id=watched.id, name=watched.name, outputs=outputs, **found)

    def events(self, request: Request) -> Response:
        """A stream of the state of a study: now, and whenever it changes."""
        stream = self._changes(self._find(request))
        return StreamingResponse(stream, media_type="text/event-stream")

    async def _changes(self, watched: Watched) -> AsyncIterator[str]:
        last, silent = "", 0.0
        yield "retry: 2000\n\n"
        while not self._is_ending():
            event = await run_in_threadpool(_event, watched)
            silent += POLL_SECONDS
            if event != last or silent >= KEEP_ALIVE_SECONDS:
                yield event if event != last else ": keep-alive\n\n"
                last, silent = event, 0.0
            await asyncio.sleep(POLL_SECONDS)


def _event(watched: Watched) -> str:
    """The current state of a study, or why it cannot be read."""
    try:
        return f"event: overview\ndata: {watched.overview()}\n\n"
    except DeepbandError as error:
        return f"event: trouble\ndata: {json.dumps(printable(str(error)))}\n\n"


def _listed(watched: Watched) -> dict[str, Any]:
    """A row of the list of studies."""
    line: dict[str, Any] = {"id": watched.id, "name": watched.name, "trouble": None}
    try:
        return {**line, **watched.row()}
    except DeepbandError as error:
        return {**line, "trouble": str(error)}

"""Access control, applied before any other code sees a request.

A hostile web page could try to read studies through the browser of a user who serves them. So the
server answers only to a fixed list of host names (against DNS rebinding), refuses requests that
come from pages of another origin, offers nothing that changes anything, and asks for a token on
addresses that other machines can reach.
"""

from __future__ import annotations

import hashlib
import secrets
from urllib.parse import urlencode

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

METHODS = ("GET", "HEAD")
MOST_PATH, MOST_QUERY = 500, 3000
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Guard:
    """Refuses requests that do not come from our own pages, and adds security headers to every
    response. Starlette's TrustedHostMiddleware checks the host names."""

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self.app = app
        self.token = token
        self.digest = hashlib.sha256((token or "").encode()).hexdigest()
        self.cookie = f"deepband-{self.digest[:8]}"  # one per server: cookies ignore ports

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return  # no answer refuses a websocket

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        refused = _refusal(scope) or self._login(scope)
        await (refused or self.app)(scope, receive, send_safely)

    def _login(self, scope: Scope) -> Response | None:
        """None if the request is authorised. The first URL carries the token; a cookie with its
        digest replaces it, so that the token does not appear in later URLs."""
        if self.token is None:
            return None
        query = QueryParams(scope["query_string"])
        given = query.get("token")
        if given is not None and _same(given, self.token):
            rest = urlencode([(name, v) for name, v in query.multi_items() if name != "token"])
            path = "/" + scope["path"].lstrip("/")  # "//host/" would lead to another host
            response = RedirectResponse(f"{path}?{rest}" if rest else path, 303)
            response.set_cookie(self.cookie, self.digest, httponly=True, samesite="strict")
            return response
        cookies = cookie_parser(Headers(scope=scope).get("cookie", ""))
        if given is None and _same(cookies.get(self.cookie, ""), self.digest):
            return None
        return PlainTextResponse(
            "The token is missing or wrong: open the URL that contains it.", 403
        )


def _same(given: str, token: str) -> bool:
    return secrets.compare_digest(given.encode(), token.encode())


def _refusal(scope: Scope) -> Response | None:
    """The response to a request that is refused with or without a token; None if it is not."""
    headers = Headers(scope=scope)
    if scope["method"] not in METHODS:
        return PlainTextResponse("This server is read-only.", 405, {"Allow": ", ".join(METHODS)})
    if len(scope.get("raw_path") or scope["path"]) > MOST_PATH:
        return PlainTextResponse("The URL is too long.", 414)
    if len(scope["query_string"]) > MOST_QUERY:
        return PlainTextResponse("The query is too long.", 414)
    origin = headers.get("origin")
    if origin is not None and origin != f"{scope['scheme']}://{headers.get('host', '')}":
        return PlainTextResponse("Only pages of this server may send requests.", 403)
    return None

"""Who may ask what: checked before anything else sees a request.

A page that any site could reach through the browser of somebody who serves studies would tell them
all. So the names that this server answers to are a fixed list (a foreign name that was made to lead
here is refused), a request that says which page it came from must come from ours, nothing that
changes anything exists, and on other than this machine's own addresses a token is asked for.
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
    """Refuses what is not a plain look from our own pages, and says on every answer what a browser
    may do with it. Names of hosts are checked by Starlette's TrustedHostMiddleware."""

    def __init__(self, app: ASGIApp, token: str | None) -> None:
        self.app = app
        self.token = token
        self.digest = hashlib.sha256((token or "").encode()).hexdigest()
        self.cookie = f"deepband-{self.digest[:8]}"  # one a server: cookies know no ports

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return  # a websocket is left unanswered, which refuses it

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        refused = _refusal(scope) or self._login(scope)
        await (refused or self.app)(scope, receive, send_safely)

    def _login(self, scope: Scope) -> Response | None:
        """None for who has shown the token. It comes with the first address; a cookie with its
        digest then stands for it, so that it is not seen in the addresses that follow."""
        if self.token is None:
            return None
        query = QueryParams(scope["query_string"])
        given = query.get("token")
        if given is not None and _same(given, self.token):
            rest = urlencode([(name, v) for name, v in query.multi_items() if name != "token"])
            here = "/" + scope["path"].lstrip("/")  # never another host's
            answer = RedirectResponse(f"{here}?{rest}" if rest else here, 303)
            answer.set_cookie(self.cookie, self.digest, httponly=True, samesite="strict")
            return answer
        cookies = cookie_parser(Headers(scope=scope).get("cookie", ""))
        if given is None and _same(cookies.get(self.cookie, ""), self.digest):
            return None
        return PlainTextResponse("The token is missing or wrong: open the address with it.", 403)


def _same(given: str, token: str) -> bool:
    return secrets.compare_digest(given.encode(), token.encode())


def _refusal(scope: Scope) -> Response | None:
    """An answer to what is refused whoever asks."""
    headers = Headers(scope=scope)
    if scope["method"] not in METHODS:
        return PlainTextResponse("This server only shows.", 405, {"Allow": ", ".join(METHODS)})
    if len(scope.get("raw_path") or scope["path"]) > MOST_PATH:
        return PlainTextResponse("The address is too long.", 414)
    if len(scope["query_string"]) > MOST_QUERY:
        return PlainTextResponse("The query is too long.", 414)
    origin = headers.get("origin")
    if origin is not None and origin != f"{scope['scheme']}://{headers.get('host', '')}":
        return PlainTextResponse("Only pages of this server may ask.", 403)
    return None

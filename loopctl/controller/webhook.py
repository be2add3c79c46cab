"""The webhook receiver: checks a delivery, says at once that it came, and hands a hint over. A process of its own.

It decides nothing: whether an item has ended is read from GitHub by the worker, or by its rules believed of a payload.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qs

from gidgethub import ValidationFailure
from gidgethub.sansio import validate_event
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from loopctl.controller.connections import REQUEST_SECONDS
from loopctl.controller.desk import Desk
from loopctl.controller.routing import Routed, route, told
from loopctl.controller.status import STALLED, Snapshot, age, health
from loopctl.controller.trust import item_to_json
from loopctl.model.events import INFO
from loopctl.model.foreign_json import parse_json

#: GitHub's own limit for a payload.
MOST_BYTES = 25 << 20
#: What all bodies together may hold while they are read.
MOST_BYTES_AT_ONCE = 64 << 20
_TYPES = ("application/json", "application/x-www-form-urlencoded")


class Refused(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: int, reason: str) -> None:
        """The status, and the words that the sender and the log get."""
        super().__init__(reason)
        self.status, self.reason = status, reason


def build_app(desk: Desk, path: str, metrics: Callable[[Snapshot, Mapping[str, int]], bytes], now: Any) -> Starlette:
    """The HTTP side. `metrics` renders a snapshot, `now` tells the time."""

    async def receive(request: Request) -> Response:
        try:
            return await _receive(request, desk)
        except Refused as refused:
            desk.refused(refused.status, refused.reason, request.headers)
            return PlainTextResponse(f"{refused.reason}\n", refused.status)

    async def healthz(request: Request) -> Response:
        state, _ = health(desk.snapshot, now())
        ages = {
            f"last_{name}_age_seconds": round(age(desk.snapshot[key], now()), 1) if desk.snapshot.get(key) else None
            for name, key in (("cycle", "turned_at"), ("good_cycle", "good_at"))
        }
        body = {"status": state, **ages, "queue_depth": desk.snapshot.get("queue_depth", 0)}
        return JSONResponse(body, 503 if state == STALLED else 200)

    async def show_metrics(request: Request) -> Response:
        text = metrics(desk.snapshot, desk.counts)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    app = Starlette(
        routes=[
            Route(path, receive, methods=["POST"]),
            Route("/healthz", healthz, methods=["GET"]),
            Route("/metrics", show_metrics, methods=["GET"]),
        ]
    )
    # A path that is nearly right is wrong.
    app.router.redirect_slashes = False
    return app


async def _receive(request: Request, desk: Desk) -> Response:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in _TYPES:
        raise Refused(415, f"the content type must be {' or '.join(_TYPES)}")
    body = await _body(request, desk)
    _check(request.headers.get("x-hub-signature-256", ""), body, desk.secret)
    event, delivery = request.headers.get("x-github-event", ""), request.headers.get("x-github-delivery", "")
    if not event or not delivery:
        raise Refused(400, "the headers X-GitHub-Event and X-GitHub-Delivery must be there")
    payload = _payload(body, kind)
    if event == "ping":
        desk.counts["ping"] += 1
        return PlainTextResponse("pong\n")
    return _accept(event, delivery, payload, body, desk)


def _accept(event: str, delivery: str, payload: Mapping[str, Any], body: bytes, desk: Desk) -> Response:
    if not desk.is_new(delivery):
        desk.counts["duplicate"] += 1
        return PlainTextResponse("seen before\n", 202)
    routed = route(event, payload, desk.settings.events, desk.settings.authorized)
    if not desk.take(delivery, body, routed, _told(event, payload, routed, body, desk)):
        raise Refused(503, "too much at once: send it again later")
    desk.counts[routed.dropped or "routed"] += 1
    action = payload.get("action")
    desk.emit(
        "webhook.received",
        INFO,
        webhook=event[:100],
        action=action[:100] if isinstance(action, str) else None,
        delivery=delivery[:100],
        actor=routed.actor[:100] or None,
        refs=[str(ref) for ref in routed.refs] or None,
        dropped=routed.dropped or None,
    )
    return PlainTextResponse(f"{'ignored: ' + routed.dropped if routed.dropped else 'accepted'}\n", 202)


def _told(event: str, payload: Mapping[str, Any], routed: Routed, body: bytes, desk: Desk) -> str:
    """What the payload says of its item, as JSON, or "". It is told whoever sent it: a stranger's reopening counts too."""
    if not (desk.secret and desk.settings.trusts):
        return ""
    item = told(event, payload, routed)
    return json.dumps(item_to_json(item)) if item and desk.is_new_body(body) else ""


async def _body(request: Request, desk: Desk) -> bytes:
    """The raw body, no more than is allowed, within a time."""
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > MOST_BYTES:
        raise Refused(413, f"more than {MOST_BYTES} bytes")
    held = 0
    chunks: list[bytes] = []
    try:
        async with asyncio.timeout(REQUEST_SECONDS):
            async for chunk in request.stream():
                held += len(chunk)
                desk.bytes_held += len(chunk)
                if held > MOST_BYTES:
                    raise Refused(413, f"more than {MOST_BYTES} bytes")
                if desk.bytes_held > MOST_BYTES_AT_ONCE:
                    raise Refused(503, "too much at once: send it again later")
                chunks.append(chunk)
    except TimeoutError:
        raise Refused(408, f"no whole body within {REQUEST_SECONDS:g} s") from None
    except ClientDisconnect:
        raise Refused(400, "the sender went away") from None
    finally:
        desk.bytes_held -= held
    return b"".join(chunks)


def _check(signature: str, body: bytes, secret: str) -> None:
    """Only SHA-256, over the bytes as they came. Without a secret (`--insecure`) nothing is checked."""
    if not secret:
        return
    if not signature.startswith("sha256=") or not signature.isascii():
        raise Refused(401, "no X-Hub-Signature-256")
    try:
        validate_event(body, signature=signature, secret=secret)
    except ValidationFailure:
        raise Refused(401, "the signature is wrong") from None


def _payload(body: bytes, kind: str) -> Mapping[str, Any]:
    try:
        text = body.decode("utf-8")
        if kind != "application/json":
            text = parse_qs(text, strict_parsing=True, max_num_fields=10)["payload"][0]
        payload = parse_json(text)
    except (ValueError, KeyError, RecursionError):
        raise Refused(400, "the payload is no JSON") from None
    if not isinstance(payload, dict):
        raise Refused(400, "the payload is no JSON object")
    return payload

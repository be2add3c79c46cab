"""Plan, outcome or error -> text."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from loopctl.model.plan import Outcome, Plan
from loopctl.render.view import Renderer, View

__all__ = ["RENDERERS", "Renderer", "View"]


def _lazily(name: str) -> Renderer:
    """A format whose module is imported when it is used."""

    def function(kind: str) -> Callable[[Any, View], str]:
        found: Callable[[Any, View], str] = getattr(importlib.import_module(f"loopctl.render.{name}"), f"{kind}_{name}")
        return found

    def plan(value: Plan, view: View) -> str:
        return function("plan")(value, view)

    def outcome(value: Outcome, view: View) -> str:
        return function("outcome")(value, view)

    return Renderer(plan, outcome)


#: Every output format by the name that `--format` takes.
RENDERERS: Mapping[str, Renderer] = MappingProxyType(
    {name: _lazily(name) for name in ("text", "json", "markdown", "github")}
)

"""Plan, outcome or error -> text."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from loopctl.render.github import outcome_github, plan_github
from loopctl.render.json import outcome_json, plan_json
from loopctl.render.markdown import outcome_markdown, plan_markdown
from loopctl.render.text import outcome_text, plan_text
from loopctl.render.view import Renderer, View

__all__ = ["RENDERERS", "Renderer", "View"]

#: Every output format by the name that `--format` takes.
RENDERERS: Mapping[str, Renderer] = MappingProxyType(
    {
        "text": Renderer(plan_text, outcome_text),
        "json": Renderer(plan_json, outcome_json),
        "markdown": Renderer(plan_markdown, outcome_markdown),
        "github": Renderer(plan_github, outcome_github),
    }
)

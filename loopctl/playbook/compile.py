"""Playbook files -> the rules the planner works with."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from loopctl.data import playbook_names, playbook_path
from loopctl.errors import DocumentError, Problem
from loopctl.model.rules import Play, Playbook, Policy
from loopctl.playbook import overlap
from loopctl.playbook import tags as tag_filter
from loopctl.playbook.build import TEMPLATES, build_play, expression_problems
from loopctl.playbook.document import Document, Path_, load_document, problem_at
from loopctl.playbook.extra_vars import check_used, parse_extra_vars
from loopctl.playbook.kinds import ITEMS, PLAN, kind_of_file
from loopctl.playbook.schema import did_you_mean, validate
from loopctl.playbook.templates import render, render_vars

__all__ = ["compile_document", "conflicts_in", "load_playbook", "parse_extra_vars"]


@dataclass(frozen=True, slots=True)
class _Loaded:
    document: Document
    plays: tuple[Play, ...]


def load_playbook(
    paths: Sequence[str], *, extra_vars: Mapping[str, object], tags: frozenset[str], policy: Policy
) -> Playbook:
    """Load and compile playbooks: a path each or, where there is no such file, the name of a packaged one.

    Raises DocumentError with the problems of all of them, rules that contradict each other included, and UsageError for
    a tag that no rule has and an extra variable that no playbook has.
    """
    loaded: list[_Loaded] = []
    problems: list[Problem] = []
    for path in paths:
        try:
            document = _find(path)
            loaded.append(_Loaded(document, compile_document(document, extra_vars, policy)))
        except DocumentError as error:
            problems += _misplaced(path) or error.problems
    if problems:
        raise DocumentError(problems)
    check_used(extra_vars, [one.document.value for one in loaded])
    plays = tag_filter.select([play for one in loaded for play in one.plays], tags)
    conflicts = conflicts_in([one.document for one in loaded], plays)
    if conflicts:
        raise DocumentError(conflicts)
    given = json.dumps(extra_vars, sort_keys=True, default=str) if extra_vars else ""
    sources = [(path, _digest(one.document.text, given)) for path, one in zip(paths, loaded, strict=True)]
    return Playbook(plays, tuple(sources))


def compile_document(document: Document, extra_vars: Mapping[str, object], policy: Policy) -> tuple[Play, ...]:
    """The plays of one document. Raises DocumentError with all its problems."""
    rendered, variables, problems = _render(document, extra_vars)
    wrong = {(problem.line, problem.column) for problem in problems}
    # What could not be rendered is still a template, so the schema's word on it is noise.
    problems += [p for p in validate(rendered, "playbook") if (p.line, p.column) not in wrong]
    plays: list[Play] = []
    for index, known in enumerate(variables):
        if problems:
            problems += expression_problems(rendered, index, known)
        else:
            play, more = build_play(rendered, index, known, policy)
            problems += more
            plays.append(play)
    if problems:
        raise DocumentError(sorted(problems, key=lambda p: (p.line, p.column)))
    return tuple(plays)


def conflicts_in(documents: Sequence[Document], plays: Sequence[Play]) -> list[Problem]:
    """Rules of these plays that contradict each other, with the lines of the documents they come from."""
    texts = {document.source: document.text for document in documents}
    return [
        problem_at(p.source, texts[p.source], (p.line, p.column), p.message, p.hint) for p in overlap.conflicts(plays)
    ]


def _render(
    document: Document, extra: Mapping[str, object]
) -> tuple[Document, list[Mapping[str, object]], list[Problem]]:
    """The document with its templates rendered, the variables of each play, and what is wrong."""
    if not isinstance(document.value, list):
        return document, [], []
    problems: list[Problem] = []
    plays: list[object] = []
    variables: list[Mapping[str, object]] = []
    for index, play in enumerate(document.value):
        known, wrong = render_vars(document, (index, "vars"), extra)
        problems += wrong
        variables.append(known)
        if isinstance(play, dict):
            play, wrong = _render_play(document, (index,), play, known)
            problems += wrong
        plays.append(play)
    return replace(document, value=plays), variables, problems


def _render_play(
    document: Document, path: Path_, play: Mapping[str, object], variables: Mapping[str, object]
) -> tuple[dict[str, object], list[Problem]]:
    problems: list[Problem] = []

    def now(at: Path_, value: object) -> object:
        result, wrong = render(document, at, value, variables)
        problems.extend(wrong)
        return result

    def rule(at: Path_, value: object) -> object:
        if not isinstance(value, dict):
            return value
        result = {key: inner if key in {"when", "ensure"} else now((*at, key), inner) for key, inner in value.items()}
        ensure = value.get("ensure")
        if isinstance(ensure, dict):
            result["ensure"] = {
                key: inner if key in TEMPLATES else now((*at, "ensure", key), inner) for key, inner in ensure.items()
            }
        return result

    result = {key: inner if key in {"vars", "rules"} else now((*path, key), inner) for key, inner in play.items()}
    rules = play.get("rules")
    if isinstance(rules, list):
        result["rules"] = [rule((*path, "rules", index), inner) for index, inner in enumerate(rules)]
    return result, problems


def _find(path: str) -> Document:
    if Path(path).exists():
        return load_document(path)
    packaged = playbook_path(path)
    if packaged:
        return load_document(packaged, source=packaged.name)
    names = playbook_names()
    hint = did_you_mean(path.removesuffix(".yml"), names) or f"packaged playbooks: {', '.join(names)}"
    raise DocumentError([Problem(path, 0, 0, "no such file, and no packaged playbook of that name", hint)])


def _misplaced(path: str) -> list[Problem]:
    """One problem instead of many, where a whole file is no playbook but something else of ours."""
    message, hint = {
        PLAN: ("this is a saved plan, not a playbook", f"carry it out: loopctl apply {path}"),
        ITEMS: ("this is an items file, not a playbook", "name it in the config: polling.sources, `items`"),
    }.get(kind_of_file(path), ("", ""))
    return [Problem(path, 0, 0, message, hint)] if message else []


def _digest(text: str, given: str) -> str:
    return hashlib.sha256(f"{text}\0{given}".encode() if given else text.encode()).hexdigest()

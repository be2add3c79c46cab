"""A valid, rendered play -> model.rules.Play."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from loopctl.errors import DocumentError, Problem
from loopctl.model.rules import (
    ENDS,
    REMOVE,
    RETAIN,
    RUN,
    Ensure,
    ItemMatch,
    Limits,
    Match,
    Play,
    Policy,
    Rule,
    SessionMatch,
)
from loopctl.model.sessions import RETAINED
from loopctl.model.workspaces import KEPT_WORKSPACE, REMOVED, WORKTREE
from loopctl.playbook.document import Document, Path_, shown
from loopctl.playbook.durations import seconds
from loopctl.playbook.templates import Compiled, compile_comment, compile_template, compile_when, is_template

#: The keys of `ensure` that are rendered when a plan is made.
TEMPLATES = ("prompt", "cwd", "comment", "branch")
_HOW = {"comment": compile_comment}
_CLOSED = "closed"
T = TypeVar("T")


def build_play(
    document: Document, index: int, variables: Mapping[str, object], policy: Policy
) -> tuple[Play, list[Problem]]:
    """The play at an index of a document that fits its schema, and what the schema cannot see."""
    builder = _Builder(document, variables, policy)
    value: Any = document.value
    return builder.play((index,), value[index]), builder.problems


def expression_problems(document: Document, index: int, variables: Mapping[str, object]) -> list[Problem]:
    """What is wrong with the expressions of a play that need not fit its schema."""
    builder = _Builder(document, variables, Policy())
    value: Any = document.value
    rules = value[index].get("rules") if isinstance(value[index], dict) else None
    for number, rule in enumerate(rules if isinstance(rules, list) else ()):
        if isinstance(rule, dict):
            builder.expressions((index, "rules", number), rule)
    return builder.problems


class _Builder:
    def __init__(self, document: Document, variables: Mapping[str, object], policy: Policy) -> None:
        self.problems: list[Problem] = []
        self._document = document
        self._variables = variables
        self._policy = policy

    def play(self, path: Path_, value: Mapping[str, Any]) -> Play:
        tags = frozenset(_words(value.get("tags")))
        limits = value.get("limits", {})
        rules = [self.rule((*path, "rules", i), rule, i, tags) for i, rule in enumerate(value["rules"])]
        return Play(
            value.get("name", f"play {int(path[-1]) + 1}"),
            self._document.position(path),
            _words(value.get("hosts")) or ("all",),
            tuple(rules),
            Limits(
                int(limits.get("max_changes", Limits().max_changes)),
                float(limits.get("max_fraction", Limits().max_fraction)),
                int(limits.get("max_sessions", 0)),
            ),
            tags,
        )

    def rule(self, path: Path_, value: Mapping[str, Any], index: int, inherited: frozenset[str]) -> Rule:
        if not value.get("match") and "when" not in value:
            hint = 'give it a match or a when; a rule for everything says when: "true"'
            self.problems.append(self._document.problem(path, "this rule would apply to everything", hint))
        self._check_keep_last(path, value)
        return Rule(
            value.get("name", f"rule {index + 1}"),
            self._document.position(path),
            self.match(path, value),
            self.ensure((*path, "ensure"), value["ensure"]),
            frozenset(_words(value.get("tags"))) | inherited,
        )

    def expressions(self, path: Path_, value: Mapping[str, Any]) -> None:
        if isinstance(value.get("when"), str):
            self._compiled(compile_when, (*path, "when"))
        ensure = value.get("ensure")
        texts = ensure if isinstance(ensure, dict) else {}
        for key in TEMPLATES:
            if isinstance(texts.get(key), str):
                self._compiled(_HOW.get(key, compile_template), (*path, "ensure", key))

    def match(self, path: Path_, value: Mapping[str, Any]) -> Match:
        item = value.get("match", {}).get("item", {})
        session = value.get("match", {}).get("session", {})
        at_item, at_session = (*path, "match", "item"), (*path, "match", "session")
        several = {key: _many(inner) for key, inner in item.items() if key != "closed_for"}
        return Match(
            ItemMatch(**several, closed_for=self._duration(at_item, item, "closed_for")),
            SessionMatch(
                _many(session.get("phase")),
                _many(session.get("harness")),
                session.get("attached"),
                self._duration(at_session, session, "older_than"),
                self._duration(at_session, session, "closed_for"),
            ),
            self._compiled(compile_when, (*path, "when")) if "when" in value else None,
        )

    def ensure(self, path: Path_, value: Mapping[str, Any]) -> Ensure:
        texts = {
            key: self._compiled(_HOW.get(key, compile_template), (*path, key)) for key in TEMPLATES if key in value
        }
        if "comment" in value and "session" not in value:
            problem = "a comment tells what state was reached: it needs a `session` beside it"
            self.problems.append(self._document.problem((*path, "comment"), problem))
        if "deliver" in value and value.get("session") != RUN:
            problem = "deliver tells a running agent what is said on its item: it needs `session: running` beside it"
            self.problems.append(self._document.problem((*path, "deliver"), problem))
        if "cwd" in value and not (is_template(value["cwd"]) or value["cwd"].startswith("/")):
            problem = f"cwd must be an absolute path, not {shown(value['cwd'])}"
            self.problems.append(self._document.problem((*path, "cwd"), problem))
        self._check_workspace(path, value)
        session = value.get("session")
        if session == _CLOSED:
            session = RETAIN if self._policy.keep_session_on_close else REMOVE
        return Ensure(
            session=session,
            harness=value.get("harness"),
            workspace=value.get("workspace"),
            kill_harness=value.get("kill_harness"),
            grace=self._duration(path, value, "grace"),
            transcript=value.get("transcript"),
            keep_last=value.get("keep_last"),
            deliver=value.get("deliver"),
            force=value.get("force"),
            prompt=texts.get("prompt"),
            cwd=texts.get("cwd"),
            comment=texts.get("comment"),
            branch=texts.get("branch"),
        )

    def _check_workspace(self, path: Path_, value: Mapping[str, Any]) -> None:
        """What is said of a worktree must fit what is said of the session."""
        session, workspace = value.get("session"), value.get("workspace")
        begins, ends = session == RUN, session in {*ENDS, _CLOSED}
        of_an_end = workspace in {KEPT_WORKSPACE, REMOVED}
        checks = (
            ("workspace", not of_an_end and not begins, f"`workspace: {workspace}` needs `session: running` beside it"),
            ("workspace", of_an_end and not ends, f"`workspace: {workspace}` needs a session that ends beside it"),
            ("force", not ends or workspace == KEPT_WORKSPACE, "force needs `workspace: removed` beside it"),
            ("branch", workspace != WORKTREE, "branch needs `workspace: worktree` beside it"),
            ("cwd", workspace == WORKTREE, "a session with a worktree works there: it has no other cwd"),
        )
        for key, is_wrong, problem in checks:
            if key in value and is_wrong:
                self.problems.append(self._document.problem((*path, key), problem))

    def _check_keep_last(self, path: Path_, value: Mapping[str, Any]) -> None:
        """It counts retained sessions, so the rule must be about these and nothing else."""
        phases = value.get("match", {}).get("session", {}).get("phase")
        about = value["ensure"].get("session") == REMOVE and _many(phases) == (RETAINED,)
        if "keep_last" in value["ensure"] and not about:
            problem = (
                "keep_last counts retained sessions: it needs `session: gone` and `match: {session: {phase: retained}}`"
            )
            self.problems.append(self._document.problem((*path, "ensure", "keep_last"), problem))

    def _duration(self, path: Path_, value: Mapping[str, Any], key: str) -> float | None:
        return self._tried((*path, key), lambda: seconds(value[key])) if key in value else None

    def _compiled(
        self, how: Callable[[Document, Path_, Mapping[str, object]], Compiled], path: Path_
    ) -> Compiled | None:
        return self._tried(path, lambda: how(self._document, path, self._variables))

    def _tried(self, path: Path_, work: Callable[[], T]) -> T | None:
        try:
            return work()
        except DocumentError as error:
            self.problems.extend(error.problems)
        except ValueError as error:
            self.problems.append(self._document.problem(path, f"{path[-1]} is {error}"))
        return None


def _many(value: Any) -> tuple[Any, ...]:
    if value is None:
        return ()
    return tuple(value) if isinstance(value, list) else (value,)


def _words(value: Any) -> tuple[str, ...]:
    """A list, or words separated by commas, as Ansible takes tags and hosts."""
    return tuple(word.strip() for text in _many(value) for word in text.split(",") if word.strip())

"""Plans, outcomes and sessions with something in every field."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from loopctl.model.facts import Known
from loopctl.model.plan import (
    CHANGED,
    CLOSE,
    COMMENT,
    FAILED,
    REAP,
    RECORD,
    RESUME,
    STALE,
    START,
    Action,
    After,
    Before,
    Guard,
    Held,
    Outcome,
    Plan,
    PlayScope,
    Result,
)
from loopctl.model.processes import ProcessId, ProcessInfo
from loopctl.model.refs import WorkItemRef
from loopctl.model.rules import Limits, Position
from loopctl.model.sessions import Pane, ServerId, SessionRecord, SessionView, Sighting
from loopctl.model.talk import Message
from loopctl.model.trees import Tree

NOW = datetime(2026, 7, 25, 10, 0, 0, tzinfo=UTC)
ID = "7b1c9e52-0000-4000-8000-000000000015"

#: Text as a stranger may write it: each tries to get out of where it is shown.
HOSTILE = (
    "\x1b[31mred\x1b[0m \x1b]0;owned\x07title\r\n::error::injected\n##[error]old "
    "| cell `code` **bold** [link](https://evil.example/) ![i](http://evil.example/p.png) @octocat fixes #12 "
    "<script>alert(1)</script> \u202ereversed\u202c zero\u200bwidth \u2028line \U0001f980 \ud800 --token=ghp_EXAMPLE"
)


def ref(number: int = 15, text: str = "github:octo/app") -> WorkItemRef:
    return WorkItemRef.parse(f"{text}#{number}")


def guard(**changes: object) -> Guard:
    values: dict[str, object] = {
        "machine": "desk",
        "registry": "r-1",
        "record_id": ID,
        "generation": 3,
        "socket": "/tmp/lc/tmux.sock",
        "server": ServerId(700, 1_784_000_000),
        "session_id": "$3",
        "pane_id": "%7",
        "pane": ProcessId(811, "boot:12345"),
        "pane_state": "live",
        "item_state": "closed",
        "item_node": "I_1",
        "item_facts": "0123456789abcdef",
        "attached": "no",
    }
    return Guard(**(values | changes))  # type: ignore[arg-type]


def closing(
    number: int = 15, why: str = "issue closed as completed 12 min ago", rule: str = "closed or merged"
) -> Action:
    before = Before(
        phase="running",
        status="active",
        pane="live",
        input="on",
        remain_on_exit="on",
        harness="claude",
        pane_id="%7",
        since=NOW - timedelta(hours=3),
        processes=("claude (811)", "node (812)", "node (813)", "sh (814)"),
    )
    after = After("retained", "closed", "issue-closed", "dead", "off", True, 5.0, "kept")
    position = Position("close-ended-items.yml", 9, 5)
    return Action(CLOSE, ref(number), before, after, "Ended items", rule, position, why, guard())


def other(verb: str, number: int, before: Before, after: After, why: str = "asked for") -> Action:
    return Action(verb, ref(number), before, after, "play", "rule", Position("keep.yml", 3, 1), why, guard(pane=None))


def rich_plan() -> Plan:
    """Every verb, and something in every field."""
    shared = Before(
        phase="retained",
        status="closed",
        pane="dead",
        input="off",
        pane_id="%9",
        harness="codex",
        attached=2,
        processes=("codex (20)",),
        spared=("tmux (812)", "ssh-agent (90)"),
        beside=("%10",),
    )
    actions = (
        closing(),
        other(
            START,
            16,
            Before("absent"),
            After("running", "active", pane="live", harness="claude", cwd="/src", prompt="- do it", name="n"),
        ),
        other(RESUME, 17, Before("paused", "paused"), After("running", "active")),
        other(REAP, 18, shared, After("gone", "closed", pane="absent", transcript="discarded")),
        other(
            RECORD, 19, Before("lost", "active", "absent"), After("gone", "closed", "lost", "absent", transcript="kept")
        ),
        other(
            COMMENT, 20, Before("running", "active"), After("running", comment="Bye\nfor now", comment_key="running")
        ),
    )
    return Plan(
        created_at=NOW,
        machine="desk",
        registry="r-1",
        playbooks=(("close-ended-items.yml", "ab" * 32),),
        plays=(PlayScope("Ended items", Limits(7, 0.25), 9),),
        actions=actions,
        held=(Held(ref(22), "GitHub: Bad Gateway (HTTP 502)"),),
        unchanged=14,
        outside=(ref(3, "items:demo/app"),),
        notes=("1 session of another machine is out of scope",),
        problems=("github: the listing was cut",),
    )


def hostile_plan() -> Plan:
    return Plan(
        created_at=NOW,
        machine="desk",
        registry="r-1",
        actions=(closing(why=HOSTILE, rule=HOSTILE),),
        held=(Held(ref(22), HOSTILE),),
        notes=(HOSTILE,),
        problems=(HOSTILE,),
    )


def hostile_everywhere() -> Plan:
    """Every verb, and hostile text in every field that could hold text."""

    def spoilt(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(spoilt, value)) or (HOSTILE,)
        return HOSTILE if isinstance(value, str) else value

    def spoil(part: Any) -> Any:
        return replace(part, **{f.name: spoilt(getattr(part, f.name)) for f in fields(part) if f.name != "verb"})

    said = (Message(HOSTILE, HOSTILE, HOSTILE, HOSTILE),)
    actions = tuple(
        replace(
            spoil(action),
            before=spoil(action.before),
            after=replace(spoil(action.after), messages=said),
            guard=spoil(action.guard),
        )
        for action in (replace(a, position=spoil(a.position)) for a in rich_plan().actions)
    )
    return replace(hostile_plan(), actions=actions)


def outcome() -> Outcome:
    return Outcome(
        results=(
            Result(closing(15), CHANGED, "4 processes ended, SIGKILL for node (812)"),
            Result(closing(16), STALE, "the pane's process is another one"),
            Result(closing(17), FAILED, "claude (811) is alive"),
        ),
        held=(Held(ref(22), "GitHub: Bad Gateway (HTTP 502)"),),
        notes=("one grace period",),
    )


def hostile_outcome() -> Outcome:
    return Outcome((Result(closing(), FAILED, HOSTILE),), (Held(ref(22), HOSTILE),), notes=(HOSTILE,))


def process(pid: int, name: str) -> ProcessInfo:
    return ProcessInfo(ProcessId(pid, "b:1"), 1, pid, pid, pid, 1000, name)


def session(**changes: object) -> SessionView:
    values: dict[str, object] = {
        "id": ID,
        "ref": ref(),
        "machine": "desk",
        "harness": "claude",
        "socket": "/tmp/lc/tmux.sock",
        "session_id": "$3",
        "pane_id": "%7",
        "name": "loop-octo-app-15",
        "cwd": "/src/app",
        "created_at": NOW - timedelta(hours=3),
    }
    record = SessionRecord(**(values | changes))  # type: ignore[arg-type]
    pane = Pane("$3", "@3", "%7", 811, False, record.name, attached=1, remain_on_exit="on")
    return SessionView(record, Known(Sighting("live", ServerId(700, 1), pane)), Tree(harness=(process(811, "claude"),)))

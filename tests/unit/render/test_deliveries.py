"""What is passed on to agents, as people are shown it."""

from __future__ import annotations

from dataclasses import replace

from loopctl.model.plan import DELIVER, After, Plan
from loopctl.model.talk import DELIVERED, FAILED_DELIVERY, SENDING, Delivery, Message
from loopctl.render import RENDERERS, View
from loopctl.render.sessions import session_text
from tests.unit.render.samples import HOSTILE, ID, NOW, closing, session

VIEW = View(now=NOW)


def telling(*messages: Message) -> Plan:
    action = closing(why=f"{len(messages)} new comments by alice")
    action = replace(action, verb=DELIVER, after=After("running", messages=messages))
    return Plan(created_at=NOW, machine="desk", registry="r-1", actions=(action,))


def test_a_plan_shows_who_says_what() -> None:
    messages = [Message(f"IC_{n}", "alice", "the whole text", f"words {n}") for n in range(7)]
    lines = RENDERERS["text"].plan(telling(*messages, Message("sent:1", "", "x", "by hand")), VIEW).splitlines()
    assert lines[0].startswith("> deliver  github:octo/app#15   running  ")
    assert lines[2:8] == [*(f"    message     alice: words {n}" for n in range(5)), "                and 3 more"]
    assert lines[-1] == "Plan: 0 to start, 0 to close, 0 to reap, 0 to record, 1 to deliver, 0 held, 0 unchanged."
    assert "the whole text" not in "".join(lines)
    assert "message     you: by hand" in RENDERERS["text"].plan(telling(Message("sent:1", "", "x", "by hand")), VIEW)


def test_nothing_that_somebody_wrote_steers_a_terminal() -> None:
    for form in ("text", "markdown", "github"):
        shown = RENDERERS[form].plan(telling(Message("IC_1", HOSTILE, HOSTILE, HOSTILE)), VIEW)
        assert "\x1b" not in shown
        assert "\u202e" not in shown


def test_a_session_shows_what_became_of_its_messages() -> None:
    lines = [
        Delivery("IC_1", ID, DELIVERED),
        Delivery("IC_2", ID, DELIVERED),
        Delivery("IC_3", ID, FAILED_DELIVERY, 2, "pane %7 takes no text"),
        Delivery("IC_4", ID, SENDING),
        Delivery("comment:running:12", ID, SENDING),
    ]
    shown = session_text(session(), None, "", VIEW, lines).splitlines()
    begin = next(i for i, line in enumerate(shown) if line.startswith("  messages"))
    assert shown[begin : begin + 3] == [
        "  messages    2 delivered, 1 failed, 1 of which it cannot be told",
        "              IC_3, tried 2 times: pane %7 takes no text",
        "              IC_4, tried 1 time",
    ]
    assert "comment:" not in "".join(shown)
    assert "messages" not in session_text(session(), None, "", VIEW)

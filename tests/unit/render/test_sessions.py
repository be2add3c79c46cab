from __future__ import annotations

from dataclasses import replace

from loopctl.model.facts import Known, Unknown
from loopctl.model.items import CLOSED, ISSUE, WorkItem
from loopctl.model.observed import Unmanaged
from loopctl.model.sessions import Pane
from loopctl.render import View
from loopctl.render.events import event_text
from loopctl.render.session_details import session_details
from loopctl.render.sessions import session_text, sessions_text, unmanaged_text
from tests.unit.render.samples import HOSTILE, ID, NOW, ref, session

VIEW = View(now=NOW)


def test_the_table() -> None:
    views = [
        session(),
        session(id="other", ref=ref(1234), status="closed", harness="codex", socket="", created_at=None),
    ]
    assert sessions_text(views, {ID: "loopctl sessions attach github:octo/app#15"}, VIEW) == (
        "PHASE    ITEM                  ID        HARNESS  AGE  SOCKET             ATTACH\n"
        f"running  github:octo/app#15    {ID[:8]}  claude   3h   /tmp/lc/tmux.sock  "
        "loopctl sessions attach github:octo/app#15\n"
        "undead   github:octo/app#1234  other     codex    -    -                  -\n"
    )


def test_panes_that_are_not_ours_are_aligned() -> None:
    pane = Pane("$1", "@1", "%1", 7, dead=False, session="mine")
    lost = Pane("$2", "@2", "%12", 8, dead=False, session="a-longer-one", mark=ID, ref_mark=str(ref()))
    assert unmanaged_text([Unmanaged("/s", pane), Unmanaged("/s", lost)], "loopctl sessions rebuild") == (
        "unmanaged  mine          %1   /s\n"
        "unmanaged  a-longer-one  %12  /s  marked for github:octo/app#15: see `loopctl sessions rebuild`\n"
    )
    assert unmanaged_text([], "") == ""


def test_no_sessions() -> None:
    assert sessions_text([], {}, VIEW) == "No sessions.\n"


def test_a_session_that_could_not_be_seen_is_unknown() -> None:
    unseen = replace(session(), sighting=Unknown("tmux did not answer within 5 s"))
    assert sessions_text([unseen], {}, VIEW).splitlines()[1].startswith("unknown  github:octo/app#15")
    assert "  pane        unknown: tmux did not answer within 5 s\n" in session_text(unseen, None, "", VIEW)


def test_colour_changes_no_column() -> None:
    plain, coloured = (sessions_text([session()], {}, replace(VIEW, color=color)) for color in (False, True))
    assert coloured != plain
    assert coloured.replace("\x1b[32m", "").replace("\x1b[0m", "") == plain


def test_a_program_is_told_as_much_as_a_person() -> None:
    item = WorkItem(ref(), ISSUE, CLOSED, "completed", title="Crash", url="https://github.com/octo/app/issues/15")
    said = session_details(session(), Known(item))
    assert said["item"] == {
        "state": "closed",
        "reason": "completed",
        "kind": "issue",
        "title": "Crash",
        "url": "https://github.com/octo/app/issues/15",
        "detail": "",
    }
    assert said["terminal"] == {
        "state": "live",
        "input": "on",
        "remain_on_exit": "on",
        "attached": 1,
        "detail": "",
    }
    assert (said["cwd"], said["processes"], said["spared"]) == ("/src/app", ["claude (811)"], [])
    unseen = session_details(replace(session(), sighting=Unknown("tmux did not answer")), Unknown("Bad Gateway"))
    assert [(unseen[key]["state"], unseen[key]["detail"]) for key in ("item", "terminal")] == [
        ("unknown", "Bad Gateway"),
        ("unknown", "tmux did not answer"),
    ]
    # The same keys, whatever is known.
    assert [set(unseen[key]) for key in ("item", "terminal")] == [set(said[key]) for key in ("item", "terminal")]
    assert session_details(session(), None)["item"]["detail"] == "not asked"


def test_one_session() -> None:
    item = WorkItem(
        ref(), ISSUE, CLOSED, "completed", title=f"Crash {HOSTILE}", url="https://github.com/octo/app/issues/15"
    )
    text = session_text(session(status="closed", closed_at=NOW, reason="issue-closed"), Known(item), "attach me", VIEW)
    for line in (
        "github:octo/app#15\n  item        closed (completed)\n  title       Crash red title ::error::injected",
        "  url         https://github.com/octo/app/issues/15\n",
        "  phase       undead\n  record      closed (issue-closed)\n",
        "  created     2026-07-25T07:00:00Z (3h ago)\n  closed      2026-07-25T10:00:00Z (0s ago)\n",
        "  session     loop-octo-app-15\n",
        "  pane        %7 live, input on, remain-on-exit on, 1 attached\n  processes   claude (811)\n",
        "  attach      attach me\n",
    ):
        assert line in text
    assert "transcript" not in text
    assert "ghp_EXAMPLE" not in text
    assert "\x1b" not in text


def test_an_item_that_is_unknown() -> None:
    text = session_text(session(), Unknown("GitHub: Bad Gateway"), "", VIEW)
    assert "  item        unknown: GitHub: Bad Gateway\n" in text


def test_an_event_is_one_line() -> None:
    event = {
        "ts": "2026-07-25T10:00:00.000Z",
        "event": "session.closed",
        "level": "warning",
        "source": "apply",
        "pid": 7,
    }
    event |= {"ref": "github:octo/app#15", "reason": "issue-closed", "note": HOSTILE, "n": 3}
    text = event_text(event, View())
    assert text.startswith(
        "2026-07-25T10:00:00.000Z  session.closed  warning  github:octo/app#15  reason=issue-closed note="
    )
    assert text.count("\n") == 1
    assert text.endswith(" n=3\n")
    assert "ghp_EXAMPLE" not in text
    assert event_text(event, View(color=True)).count("\x1b") == 2


def test_no_field_of_an_event_steers_the_terminal() -> None:
    hostile = "\x1b[31m\ud800\u202e"
    event = dict.fromkeys(("ts", "event", "level", "ref", "reason"), hostile)
    assert not {"\x1b", "\ud800", "\u202e"} & set(event_text(event, View()))

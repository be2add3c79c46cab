from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from loopctl.cli.run import STATUS_FILE
from loopctl.cli.status import status
from loopctl.controller import metrics
from loopctl.controller.cycle import Cost, Cycle
from loopctl.controller.log import ERROR, INFO, WARNING, Log
from loopctl.controller.queue import Work
from loopctl.controller.status import Tally, health, is_snapshot, reason_class, stamp
from loopctl.model.plan import Held, Outcome
from loopctl.model.refs import WorkItemRef
from loopctl.testing import FakeWorld
from tests.unit.controller.desk import Desk
from tests.unit.playbooks import ending

NOW = datetime(2026, 7, 25, 10, 0, tzinfo=UTC)


def snapshot(**fields: Any) -> dict[str, Any]:
    return {"interval_seconds": 60, "started_at": stamp(NOW), "whole_is_good": True} | fields


HEALTH = [
    ({}, 0, "starting"),
    ({}, 239, "starting"),
    ({}, 241, "stalled"),
    ({"turned_at": stamp(NOW), "good_at": stamp(NOW)}, 239, "ok"),
    ({"turned_at": stamp(NOW), "good_at": stamp(NOW)}, 241, "stalled"),
    ({"turned_at": stamp(NOW), "whole_is_good": False}, 0, "degraded"),
    # A clock that went back is no reason to be alarmed.
    ({"turned_at": stamp(NOW), "good_at": stamp(NOW)}, -86_400, "ok"),
    ({"turned_at": stamp(NOW), "interval_seconds": 3600}, 10_000, "ok"),
]


@pytest.mark.parametrize(("fields", "later", "state"), HEALTH)
def test_health(fields: dict[str, Any], later: int, state: str) -> None:
    assert health(snapshot(**fields), NOW + timedelta(seconds=later))[0] == state


def test_what_is_wrong_is_said() -> None:
    last = {"turned_at": stamp(NOW), "whole_is_good": False, "good_at": stamp(NOW - timedelta(minutes=5))}
    words = health(snapshot(**last, last_cycle={"refused": "over its limits"}), NOW)[1]
    assert "over its limits" in words
    assert "300 s ago" in words


def shown(tmp_path: Path, capsys: pytest.CaptureFixture[str], written: object) -> list[str]:
    """What the command prints where no controller runs, and this is what the last one wrote."""
    root = tmp_path / "state"
    root.mkdir(mode=0o700)
    (root / STATUS_FILE).write_text(json.dumps(written))
    config = tmp_path / "loopctl.yml"
    config.write_text(json.dumps({"state": {"root": str(root)}}))
    assert status.main(["--config", str(config)], standalone_mode=False) == 1
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    "fields",
    [
        {"last_cycle": {"problems": 5}},
        {"last_cycle": {"problems": [5]}},
        {"last_cycle": {"troubles": [5]}},
        {"rejected": "p.yml"},
        {"rejected": [None]},
        {"last_cycle": {"error": ["x"]}},
        {"last_cycle": []},
        {"playbooks": "p.yml"},
        {"playbooks": [None]},
        {"interval_seconds": "60"},
        {"interval_seconds": 10**400},
        {"interval_seconds": float("nan")},
        {"turned_at": "yesterday"},
        {"turned_at": "2026-07-25T10:00:00"},
        {"good_at": 5},
        {"held": None},
    ],
)
def test_a_file_of_another_shape_is_no_snapshot(fields: dict[str, Any]) -> None:
    assert not is_snapshot(snapshot(**fields))


def test_the_command_says_what_went_wrong_last_where_none_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    last = {"problems": ["the listing of octo/app failed"], "troubles": ["items:demo/app#1: it cannot be started"]}
    assert shown(tmp_path, capsys, snapshot(last_cycle=last))[-2:] == [
        "trouble     the listing of octo/app failed",
        "trouble     items:demo/app#1: it cannot be started",
    ]


def test_a_snapshot_holds_no_secret() -> None:
    secret = "ghp_ABCDEFGHIJKLMN"
    cycle = Cycle(
        Work(everything=True),
        outcome=Outcome(held=(Held(WorkItemRef.parse("items:demo/app#1"), f"{secret} cannot be read"),)),
        error=f"no {secret}",
    )
    tally = Tally({"playbooks": [f"/{secret}.yml"]}, 60, rejected=(f"{secret}.yml:1:2: no",))
    tally.note(cycle, NOW)
    text = json.dumps(tally.snapshot(NOW))
    assert (text.count("***"), "ghp" in text) == (5, False)


def test_the_command_shows_nothing_of_a_file_of_another_shape(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shown(tmp_path, capsys, snapshot(playbooks=[None])) == ["stopped     no controller runs"]


def test_what_a_controller_writes_is_a_snapshot() -> None:
    world = FakeWorld()
    world.item("demo/app#1", silent="GitHub: Bad Gateway (HTTP 502)")
    world.session("demo/app#1")
    desk = Desk(world, ending())
    desk.run(200)
    assert desk.snapshots
    for made in desk.snapshots:
        assert is_snapshot(json.loads(json.dumps(made))), made
    assert not is_snapshot([])


def test_reasons_are_counted_by_kind() -> None:
    same = {"GitHub: Bad Gateway (HTTP 502)", "GitHub: no answer within 30 s"}
    assert {reason_class(reason) for reason in same} == {"GitHub"}
    assert reason_class("another item has this number now (its node id differs)") == "another item has this number now"
    assert reason_class("tmux server 77 still runs") == "tmux server N still runs"
    assert reason_class("") == "unknown"


def test_reasons_cannot_flood_the_metrics() -> None:
    tally = Tally({}, 60)
    tally.held = {f"reason {chr(65 + number // 26)}{chr(65 + number % 26)}": 1 for number in range(500)}
    held = tally.snapshot(NOW)["held"]
    assert len(held) == 21
    assert held["other"] == 480


def test_a_snapshot_is_json_and_metrics_show_it() -> None:
    world = FakeWorld()
    for number in range(1, 4):
        world.item(f"demo/app#{number}", "closed" if number == 1 else "open")
        world.session(f"demo/app#{number}")
    world.item("demo/app#4", silent="GitHub: Bad Gateway (HTTP 502)")
    world.session("demo/app#4")
    desk = Desk(world, ending())
    desk.run(100)
    shown = json.loads(json.dumps(desk.snapshots[0]))
    assert shown["sessions"] == {"retained": 1, "running": 3}
    text = metrics.render(shown, {"routed": 3, "rejected": 1}, world.now()).decode()
    for line in (
        "loopctl_up 1.0",
        'loopctl_sessions{phase="running"} 3.0',
        'loopctl_actions_total{status="changed",verb="close"} 1.0',
        'loopctl_held_items{reason="GitHub"} 1.0',
        "loopctl_queue_depth 0.0",
        "loopctl_cycle_seconds_count 2.0",
        'loopctl_cycles_total{trigger="poll"} 2.0',
        'loopctl_webhook_requests_total{outcome="rejected"} 1.0',
    ):
        assert line in text.splitlines(), line


def test_metrics_before_the_first_snapshot() -> None:
    assert "loopctl_up 0.0" in metrics.render({}, {}, NOW).decode()


def test_what_is_left_at_github_is_remembered() -> None:
    tally = Tally({}, 60)
    tally.note(Cycle(Work(everything=True), cost=Cost(2, 3, 4990)), NOW)
    tally.note(Cycle(Work(everything=True)), NOW)
    assert tally.snapshot(NOW)["github"] == {"calls": 2, "points": 3, "remaining": 4990}


def lines(as_json: bool) -> tuple[Log, io.StringIO]:
    out = io.StringIO()
    return Log(lambda text: out.write(text + "\n"), lambda: NOW, as_json), out


def test_a_log_for_programs() -> None:
    log, out = lines(as_json=True)
    log(INFO, "looked", seen=3, error=None, refs=["a"])
    log(ERROR, "x ##[error]", token="ghp_" + "a" * 36)
    first, second = out.getvalue().splitlines()
    assert json.loads(first) == {"ts": stamp(NOW), "level": "info", "message": "looked", "seen": 3, "refs": ["a"]}
    assert "ghp_a" not in second
    assert "##[" not in second
    json.loads(second)


def test_a_log_for_people() -> None:
    log, out = lines(as_json=False)
    log(WARNING, "held", ref="octo/app#1", reason="GitHub: \x1b[31mno\nanswer", seconds=2.5)
    (line,) = out.getvalue().splitlines()
    assert "warning: held ref=octo/app#1" in line
    assert line.endswith("seconds=2.5")
    assert "\x1b" not in line

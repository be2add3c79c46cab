"""A whole life with the process table that machines without /proc get, and without handles of processes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from loopctl.adapters import processes
from loopctl.adapters.processes import LocalProcesses
from loopctl.adapters.processes_psutil import Psutil
from loopctl.model.facts import Known
from loopctl.model.items import ISSUE, WorkItem
from loopctl.model.plan import CHANGED
from loopctl.model.refs import WorkItemRef
from loopctl.model.rules import RUN, Ensure, ItemMatch
from loopctl.model.sessions import RETAINED, RUNNING
from loopctl.observe import observe
from loopctl.run import apply_plan, plan_once
from tests.support import wait_until
from tests.worlds import items_of, make_world, one_rule

REF = "items:demo/app#1"
# One child leaves its group and is deaf to hang-ups, one ignores what it is asked; both carry the session's mark.
AGENT = """
setsid nohup sleep 120 >/dev/null 2>&1 &
sh -c 'trap "" TERM; while :; do sleep 1; done' &
sleep 120
"""


@pytest.mark.tmux
def test_a_session_is_started_seen_and_ended_with_all_its_children(
    tmp_path: Path, tmux_socket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_pidfd", lambda pid: None)
    world = make_world(
        tmp_path / "state",
        tmux_socket,
        {REF: WorkItem(WorkItemRef.parse(REF), ISSUE, "open")},
        {"agent": ("sh", "-c", AGENT)},
    )
    world = replace(
        world, processes=LocalProcesses(Psutil()), policy=replace(world.policy, harness_kill_grace_seconds=0.5)
    )
    start = plan_once(one_rule(Ensure(session=RUN), item=ItemMatch(state=("open",))), world)
    assert [result.status for result in apply_plan(start, world).results] == [CHANGED]

    def members() -> set[tuple[str, bool]]:
        """The name of each, and whether it leads a session of processes."""
        (subject,) = observe(world).subjects
        assert subject.session
        assert subject.session.phase == RUNNING
        return {(process.name, process.sid == process.id.pid) for process in subject.session.tree.members}

    wait_until(lambda: {("sleep", True), ("sh", False)} <= members())
    (subject,) = observe(world).subjects
    assert subject.session
    mark = subject.session.record.id
    items_of(world)[REF] = "closed"
    (result,) = apply_plan(plan_once(one_rule(), world), world).results
    assert result.status == CHANGED
    (subject,) = observe(world).subjects
    assert subject.phase == RETAINED
    whole = LocalProcesses().look()
    assert isinstance(whole, Known)
    assert mark not in whole.value.marked
    assert plan_once(one_rule(), world).actions == ()

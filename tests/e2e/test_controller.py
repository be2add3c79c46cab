"""The controller on the real thing: polling, webhooks, one at a time, stopping, dying, edits, and a tmux that dies."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.e2e.controller import SECRET, Answer, Running, children_of, issue_event
from tests.e2e.kit import Box, close_rule
from tests.e2e.test_refusals import small_disk as small_disk  # its fixture
from tests.fake_github import FakeGitHub, faults
from tests.payloads import payload, pull, stamp
from tests.support import wait_until

pytestmark = [pytest.mark.gh, pytest.mark.tmux]

REPO = "octo/app"
#: Only a webhook can be what made it look.
NEVER = ("--interval", "3600")
OFTEN = ("--interval", "0.2")


@pytest.fixture
def hub(box: Box, fake_github: FakeGitHub) -> Iterator[FakeGitHub]:
    box.env |= fake_github.env()
    box.github(REPO)
    yield fake_github
    fake_github.release()


def start_all(box: Box, hub: FakeGitHub, *numbers: int) -> list[str]:
    for number in numbers:
        hub.issue(REPO, number, labels=("agent",))
    done = box.run("apply", "start.yml", "-y")
    assert done.code == 0, done
    refs = [f"github:{REPO}#{number}" for number in numbers]
    box.wait_ready(refs)
    return refs


def is_retained(box: Box, ref: str) -> bool:
    row = box.record(ref)
    return row["status"] == "closed" and box.pane(row["pane_id"], "pane_dead") == "1"


def wait_retained(box: Box, ref: str) -> None:
    wait_until(lambda: is_retained(box, ref), what=f"{ref} is retained")


def test_an_issue_that_is_closed_is_noticed_by_polling(box: Box, hub: FakeGitHub) -> None:
    one, two = start_all(box, hub, 1, 2)
    with Running(box, "close.yml", *OFTEN) as controller:
        controller.said("looked", 2)
        hub.change(REPO, 1, state="CLOSED")
        wait_retained(box, one)
        assert box.record(one)["reason"] == "issue-closed"
        controller.said("looked", closures=1)
        assert controller.stop() == 0
    assert box.session(two)["phase"] == "running"
    (found,) = box.events("poll.closure_detected")
    assert (found["ref"], found["reason"]) == (one, "issue-closed")
    cycles = box.events("poll.cycle")
    assert sum(cycle["closures"] for cycle in cycles) == 1
    assert all({"seen", "changed", "held", "failed", "closures", "cost"} <= cycle.keys() for cycle in cycles)
    assert [event["event"] for event in box.events("controller.started", "controller.stopped")] == [
        "controller.started",
        "controller.stopped",
    ]


def test_a_signed_webhook_is_acted_on_at_once(box: Box, hub: FakeGitHub) -> None:
    one, two = start_all(box, hub, 1, 2)
    with Running(box, "close.yml", *NEVER, webhook=True) as controller:
        controller.said("looked", 1)
        hub.change(REPO, 1, state="CLOSED")
        answer = controller.deliver("issues", issue_event(f"{REPO}#1", "closed"))
        assert (answer.status, answer.text) == (202, "accepted\n")
        wait_retained(box, one)
        # Polling had nothing to do with it.
        assert box.events("poll.closure_detected") == []
        assert controller.said("looked", trigger="webhook")["closures"] == 1
        assert controller.stop() == 0
    assert box.session(two)["phase"] == "running"
    (received,) = box.events("webhook.received")
    assert (received["webhook"], received["action"], received["refs"]) == ("issues", "closed", [one])


def test_a_webhook_is_only_a_hint(box: Box, hub: FakeGitHub) -> None:
    """S16. It says closed and GitHub says open: nothing ends, however often it says so (out of order, replayed, forged)."""
    (one,) = start_all(box, hub, 1)
    with Running(box, "close.yml", *NEVER, webhook=True) as controller:
        controller.said("looked", 1)
        closed, reopened = issue_event(f"{REPO}#1", "closed"), issue_event(f"{REPO}#1", "reopened")
        for payload, delivery in ((reopened, "b"), (closed, "a"), (closed, "a"), (closed, "c")):
            assert controller.deliver("issues", payload, delivery=delivery).status == 202
        controller.said("looked", trigger="webhook")
        assert controller.deliver("issues", closed, secret="guessed").status == 401
        controller.stop()
    assert box.session(one)["phase"] == "running"
    (rejected,) = box.events("webhook.rejected")
    assert (rejected["status"], rejected["reason"]) == (401, "the signature is wrong")
    assert [event.get("dropped") for event in box.events("webhook.received")] == ["unauthorized-actor", None, None]


def test_a_webhook_that_may_be_believed_costs_no_call(box: Box, hub: FakeGitHub) -> None:
    """routing.trustWebhookState: no call to GitHub, and one when it is switched off; what is replayed is only a hint."""
    box.settings["routing"]["trustWebhookState"] = True
    box.write_config()
    for number in (1, 2, 3):
        hub.pull(REPO, number, labels=("agent",))
    assert box.run("apply", "start.yml", "-y").code == 0
    one, two, three = refs = [f"github:{REPO}#{number}" for number in (1, 2, 3)]
    box.wait_ready(refs)
    with Running(box, "close.yml", *NEVER, webhook=True) as controller:
        controller.said("looked", 1)

        def close(number: int) -> dict[str, object]:
            now = stamp(datetime.now(UTC))
            node = hub.change(REPO, number, state="MERGED", closed_at=now, updated_at=now).node_id
            merged = pull(number, "closed", merged=True, at=now, node_id=node)
            event = payload("closed", pull_request=merged)
            assert controller.deliver("pull_request", event).status == 202
            return event

        asked = len(hub.requests)
        event = close(1)
        wait_retained(box, one)
        assert len(hub.requests) == asked
        assert controller.said("looked", trigger="webhook")["told"] == 1
        assert box.record(one)["reason"] == "pr-merged"
        # Genuine, signed, and seen before: GitHub is asked, and that one says that it is open.
        hub.change(REPO, 1, state="OPEN")
        controller.deliver("pull_request", event, delivery="again")
        controller.said("looked", 2, trigger="webhook")
        box.settings["routing"]["trustWebhookState"] = False
        box.write_config()
        controller.said("looked", trigger="reload")
        asked = len(hub.requests)
        close(2)
        wait_retained(box, two)
        assert len(hub.requests) == asked + 1
        assert controller.stop() == 0
    assert box.session(three)["phase"] == "running"


def test_the_end_state_is_right_through_every_reopening(box: Box, hub: FakeGitHub) -> None:
    """No memory of the first close gets in the way of the second (L9)."""
    box.settings["routing"]["authorizedUsers"] = ["OctoCat"]
    box.write_config()
    book = box.playbook("both.yml", json.dumps(json.loads(close_rule()) + _START))
    hub.issue(REPO, 1, labels=("agent",))
    ref = f"github:{REPO}#1"
    with Running(box, book, *NEVER, webhook=True) as controller:
        for turn in range(1, 3):
            controller.said("start changed", turn)
            box.wait_ready([ref])
            hub.change(REPO, 1, state="CLOSED")
            controller.deliver("issues", issue_event(f"{REPO}#1", "closed"))
            controller.said("close changed", turn)
            assert is_retained(box, ref)
            if turn < 2:
                hub.change(REPO, 1, state="OPEN")
                controller.deliver("issues", issue_event(f"{REPO}#1", "reopened"))
        controller.stop()
    assert [row["status"] for row in box.records()] == ["closed", "closed"]
    assert box.processes() == {}


_START = [
    {
        "name": "start",
        "rules": [{"name": "open", "match": {"item": {"state": "open"}}, "ensure": {"session": "running"}}],
    }
]


def test_a_start_needs_somebody_authorized(box: Box, hub: FakeGitHub) -> None:
    box.settings["routing"]["authorizedUsers"] = ["octocat"]
    box.write_config()
    start_all(box, hub, 9)
    with Running(box, "start.yml", *NEVER, webhook=True) as controller:
        controller.said("looked", 1)
        hub.issue(REPO, 1, labels=("agent",))
        stranger = controller.deliver("issues", issue_event(f"{REPO}#1", "labeled", actor="mallory"))
        assert stranger.text == "ignored: unauthorized-actor\n"
        # A close is anybody's to tell of, and starts nothing.
        for number in (1, 9):
            controller.deliver("issues", issue_event(f"{REPO}#{number}", "closed", actor="mallory"))
        controller.said("looked", trigger="webhook")
        assert len(box.records()) == 1
        controller.deliver("issues", issue_event(f"{REPO}#1", "labeled"))
        controller.said("start changed")
        controller.stop()
    assert box.session(f"github:{REPO}#1")["phase"] == "running"


def test_one_controller_for_a_state_root(box: Box, hub: FakeGitHub) -> None:
    start_all(box, hub, 1)
    with Running(box, "close.yml", *NEVER) as controller:
        for args in (("close.yml",), ("close.yml", "--once")):
            second = box.run("run", *args)
            assert second.code == 3
            assert f"pid {controller.process.pid}" in second.err
        # A desk takes its turn all the same.
        controller.said("looked", 1)
        hub.change(REPO, 1, state="CLOSED")
        assert box.run("apply", "close.yml", "-y").code == 0
        assert controller.stop() == 0
    assert box.run("run", "close.yml", "--once").code == 0


def test_a_stop_ends_after_the_action_in_hand(box: Box, hub: FakeGitHub) -> None:
    book = box.playbook("slow.yml", close_rule(grace=2))
    box.settings["routing"]["defaultHarness"] = "stubborn"
    box.write_config()
    (one,) = start_all(box, hub, 1)
    hub.change(REPO, 1, state="CLOSED")
    with Running(box, book, *NEVER) as controller:
        wait_until(lambda: box.events("apply.started"), what="it began to act")
        assert controller.stop() == 0
    done = box.run("run", book, "--once")
    assert done.code == 0, done
    assert is_retained(box, one)
    assert box.processes() == {}


def test_a_killed_controller_ends_no_session_and_the_next_one_goes_on(box: Box, hub: FakeGitHub) -> None:
    one, two = start_all(box, hub, 1, 2)
    before = box.processes().keys()
    with Running(box, "close.yml", *OFTEN, webhook=True) as controller:
        controller.said("looked", 1)
        receivers = children_of(controller.process.pid)
        controller.process.kill()
        controller.process.wait()
    # The receiver went by itself, and gave the port back.
    wait_until(lambda: not any(map(_alive, receivers)), what="its end")
    assert box.processes().keys() == before
    hub.change(REPO, 1, state="CLOSED")
    with Running(box, "close.yml", *OFTEN) as controller:
        wait_retained(box, one)
        controller.stop()
    assert box.session(two)["phase"] == "running"


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2][:1] not in b"ZX"
    except OSError:
        return False


def test_a_dead_receiver_is_started_again(box: Box, hub: FakeGitHub) -> None:
    (one,) = start_all(box, hub, 1)
    with Running(box, "close.yml", *NEVER, webhook=True) as controller:
        controller.said("looked", 1)
        (receiver,) = children_of(controller.process.pid)
        os.kill(receiver, signal.SIGKILL)
        controller.said("listening for webhooks", 2)
        hub.change(REPO, 1, state="CLOSED")
        assert controller.deliver("issues", issue_event(f"{REPO}#1", "closed")).status == 202
        wait_retained(box, one)
        assert controller.stop() == 0


def rewrite(box: Box, text: str) -> None:
    """As an editor does: nobody sees half a file."""
    Path(box.playbook("new.yml", text)).replace(box.folder / "mine.yml")


def test_edits_take_effect_and_wrong_ones_do_not(box: Box, hub: FakeGitHub) -> None:
    (one,) = start_all(box, hub, 1)
    hub.change(REPO, 1, state="CLOSED")
    book = box.playbook("mine.yml", "[{rules: [{name: none, match: {item: {number: 99}}, ensure: {session: gone}}]}]")
    with Running(box, book, *OFTEN) as controller:
        controller.said("looked", 2)
        assert box.session(one)["phase"] == "running"
        rewrite(box, "- name: x\n  rules:\n    - name: wrong\n      macht: {}\n")
        said = controller.said("an edit is wrong; what was there before stays in force")
        assert any("mine.yml:4:7" in problem for problem in said["problems"]), said
        looks = len(controller.find("looked"))
        controller.said("looked", looks + 2)
        assert box.session(one)["phase"] == "running"
        assert len(controller.find("an edit is wrong; what was there before stays in force")) == 1
        rewrite(box, close_rule())
        assert controller.said("reloaded")["changed"] == [book]
        wait_retained(box, one)
        box.settings["state"]["root"] = str(box.folder / "elsewhere")
        box.write_config()
        controller.said("state_root cannot be changed while the controller runs: restart it")
        controller.stop()
    assert not (box.folder / "elsewhere").exists()
    assert box.events("config.reloaded")[0]["changed"] == [book]
    (rejected,) = box.events("config.rejected")
    assert any("mine.yml:4:7" in problem for problem in rejected["problems"])


def test_github_down_and_back(box: Box, hub: FakeGitHub) -> None:
    one, two = start_all(box, hub, 1, 2)
    hub.change(REPO, 1, state="CLOSED")
    before = box.processes().keys()
    hub.fail(faults.BAD_GATEWAY)
    with Running(box, "close.yml", *OFTEN) as controller:
        controller.said("looked", 5)
        assert box.processes().keys() == before
        state = box.run("status")
        assert state.code == 5, state
        assert "degraded" in state.out
        hub.recover()
        wait_retained(box, one)
        wait_until(lambda: box.run("status").code == 0, what="it is well again")
        controller.stop()
    assert box.session(two)["phase"] == "running"
    assert box.run("status").code == 1


def test_tmux_killed_and_started_again(box: Box, hub: FakeGitHub) -> None:
    """A server that is gone is no ending; the records stay until their items end."""
    one, two = start_all(box, hub, 1, 2)
    with Running(box, "close.yml", *OFTEN) as controller:
        controller.said("looked", 1)
        box.tmux("kill-server")
        looks = len(controller.find("looked"))
        controller.said("looked", looks + 2)
        assert {row["status"] for row in box.records()} == {"active"}
        box.tmux("-f", "/dev/null", "new-session", "-d", "-s", "somebody", "sleep 3600")
        wait_until(lambda: "somebody" in box.tmux("list-sessions"), what="another server")
        hub.change(REPO, 1, state="CLOSED")
        wait_until(lambda: box.record(one)["status"] == "closed", what="its record is closed")
        assert box.record(two)["status"] == "active"
        assert "somebody" in box.tmux("list-sessions")
        controller.stop()


def test_health_and_metrics(box: Box, hub: FakeGitHub) -> None:
    start_all(box, hub, 1)
    with Running(box, "close.yml", *NEVER, webhook=True) as controller:
        controller.said("looked", 1)
        wait_until(lambda: json.loads(controller.get("/healthz").text)["status"] == "ok", what="the first look is told")
        hub.change(REPO, 1, state="CLOSED")
        controller.deliver("issues", issue_event(f"{REPO}#1", "closed"))
        controller.said("close changed")
        wait_until(lambda: 'verb="close"' in controller.get("/metrics").text, what="the close is counted")
        text = controller.get("/metrics").text
        assert 'loopctl_actions_total{status="changed",verb="close"} 1.0' in text
        assert 'loopctl_sessions{phase="running"} 1.0' in text
        assert "loopctl_up 1.0" in text
        assert "loopctl_cycle_seconds_count 2.0" in text
        assert "loopctl_github_points_remaining" in text
        assert 'loopctl_webhook_requests_total{outcome="routed"} 1.0' in text
        shown = box.run("status", "--format", "json")
        assert (shown.code, shown.json["status"]) == (0, "ok")
        controller.stop()


def test_it_refuses_to_listen_without_a_secret(box: Box) -> None:
    box.settings["webhooks"] = {"ghWebhook": {"port": 0}}
    box.write_config()
    done = box.run("run", "close.yml", "--webhook")
    assert done.code == 64
    assert "THE_LOOP_GH_WEBHOOK_SECRET is not set" in done.err
    assert box.run("run", "close.yml", "--webhook", env={"THE_LOOP_GH_WEBHOOK_SECRET": ""}).code == 64
    box.settings["webhooks"] = {"ghWebhook": {"port": 0, "host": "0.0.0.0"}}
    box.write_config()
    done = box.run("run", "close.yml", "--webhook", "--insecure")
    assert done.code == 64
    assert "loopback" in done.err


def test_a_port_that_is_taken_is_told_at_once(box: Box, hub: FakeGitHub) -> None:
    with Running(box, "close.yml", *NEVER, webhook=True) as controller:
        port = int(controller.address.rpartition(":")[2].partition("/")[0])
        box.settings["webhooks"] = {"ghWebhook": {"port": port}}
        box.settings["state"]["root"] = str(box.folder / "other")
        box.write_config()
        done = box.run("run", "close.yml", "--webhook", env={"THE_LOOP_GH_WEBHOOK_SECRET": "x"})
        assert done.code == 1
        assert f"cannot listen on 127.0.0.1 port {port}" in done.err
        controller.stop()


def test_the_controller_inside_a_session_leaves_that_one_alone(box: Box) -> None:
    """S23: a loop that was registered as a session does not end itself."""
    box.harness(
        "looper", "sh", "-c", f"exec loopctl run {box.folder}/close.yml --interval 0.2 2>{box.folder}/inner.log"
    )
    box.env["PATH"] = f"{Path(sys.executable).parent}:{box.env['PATH']}"
    box.settings["harnesses"]["looper"]["env"]["LOOPCTL_CONFIG"] = str(box.config)
    box.write_config()
    box.items({"demo/app#1": "open"})
    book = box.playbook(
        "loop.yml",
        json.dumps([{"rules": [{**_START[0]["rules"][0], "ensure": {"session": "running", "harness": "looper"}}]}]),
    )
    done = box.run("apply", book, "-y")
    assert done.code == 0, done
    wait_until(lambda: box.events("poll.cycle"), what="the inner controller looks")
    box.items({"demo/app#1": "closed"})
    wait_until(lambda: [e for e in box.events("poll.cycle") if e["held"]], what="it holds its own session")
    assert box.record("items:demo/app#1")["status"] == "active"
    # The event is written before the log.
    log = box.folder / "inner.log"
    wait_until(lambda: "loopctl itself runs inside this session" in log.read_text(), what="the log says why")


def test_a_burst_of_deliveries(box: Box, hub: FakeGitHub) -> None:
    """500 of them, out of order, some twice, some forged: each answered, a few looks, and the end state of GitHub."""
    refs = start_all(box, hub, 1, 2, 3, 4)
    chance = random.Random(94)
    sent = []
    for number in range(500):
        payload = issue_event(f"{REPO}#{1 + number % 50}", chance.choice(["closed", "reopened", "labeled"]))
        secret = SECRET if chance.random() >= 0.05 else "guessed"
        sent += [(payload, secret, f"d{number}")] * (2 if number % 10 == 0 else 1)
    # Whatever happens to the rest, these two have really ended.
    sent += [(issue_event(f"{REPO}#{number}", "closed"), SECRET, f"last{number}") for number in (1, 2)]
    chance.shuffle(sent)
    book = box.playbook("all.yml", close_rule())
    with Running(box, book, *NEVER, webhook=True) as controller:
        controller.said("looked", 1)
        for number in (1, 2):
            hub.change(REPO, number, state="CLOSED")
        with ThreadPoolExecutor(8) as pool:
            answers = Counter(answer.status for answer in pool.map(lambda it: _send(controller, *it), sent))
        forged = sum(secret != SECRET for _, secret, _ in sent)
        assert answers == {202: len(sent) - forged, 401: forged}
        for ref in refs[:2]:
            wait_retained(box, ref)
        looks = [row for row in controller.find("looked") if row["trigger"] == "webhook"]
        assert len(looks) < 50
        assert controller.stop() == 0
    assert [box.session(ref)["phase"] for ref in refs] == ["retained", "retained", "running", "running"]


def _send(controller: Running, payload: object, secret: str, delivery: str) -> Answer:
    return controller.deliver("issues", payload, secret=secret, delivery=delivery)


def test_a_registry_that_another_process_has_locked(box: Box, hub: FakeGitHub) -> None:
    (one,) = start_all(box, hub, 1)
    db = sqlite3.connect(box.state / "registry.db", isolation_level=None)
    db.execute("BEGIN IMMEDIATE")
    hub.change(REPO, 1, state="CLOSED")
    with Running(box, "close.yml", "--interval", "1") as controller:
        assert "database is locked" in controller.said("looked")["refused"]
        assert box.session(one)["phase"] == "running"
        db.execute("ROLLBACK")
        db.close()
        wait_retained(box, one)
        assert controller.stop() == 0


def test_a_full_disk(box: Box, hub: FakeGitHub, small_disk: Path) -> None:
    """Nobody is ended half, the controller stays, and goes on when there is room again."""
    try:
        (one,) = start_all(box, hub, 1)
        before = box.processes().keys()
        with Running(box, "close.yml", *OFTEN) as controller:
            controller.said("looked", 1)
            ballast = small_disk / "ballast"
            with ballast.open("wb", buffering=0) as file, suppress(OSError):
                while True:
                    file.write(b"\0" * 512)
            hub.change(REPO, 1, state="CLOSED")
            wait_until(lambda: [row for row in controller.find("looked") if row.get("refused")], what="it refuses")
            assert box.processes().keys() == before
            ballast.unlink()
            wait_retained(box, one)
            assert controller.stop() == 0
    finally:
        subprocess.run(["umount", "-l", str(small_disk)], check=False)

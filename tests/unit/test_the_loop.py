from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from loopctl.adapters.the_loop import read_loop_folder
from loopctl.errors import StateError
from loopctl.model.refs import WorkItemRef
from loopctl.model.the_loop import LoopRecord, as_tmux_spells, loop_session_name, loop_slug


def v19(**changes: object) -> dict[str, object]:
    """A record as the-loop v0.19 writes it."""
    return {
        "workItem": {"ref": "github:octo/app#15", "provider": "github", "owner": "octo", "repo": "app", "number": 15},
        "harness": "claude",
        "harnessSessionId": "0c5b2c1e-7c0a-4a52-8a55-2f6c7f2f9d10",
        "cwd": "/src/app",
        "status": "active",
        "createdAt": "2026-07-25T10:00:00Z",
        "lastEventAt": "2026-07-25T11:00:00Z",
        "runner": "tmux",
        "tmuxTarget": "loop-github-octo-app-15",
        "recentDeliveries": ["d-1"],
    } | changes


def v11(**changes: object) -> dict[str, object]:
    """A record as the-loop v11 writes it: no runner, a link, and the item's pull requests."""
    data = v19(url="https://github.com/octo/app/issues/15", **changes)
    del data["runner"]
    return data


def put(folder: Path, data: object, name: str = "github-octo-app-15.json") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(data if isinstance(data, str) else json.dumps(data, indent=2))
    return path


def one(folder: Path) -> LoopRecord:
    found = read_loop_folder(folder)
    assert found.skipped == ()
    (record,) = found.records
    return record


def why(folder: Path) -> str:
    found = read_loop_folder(folder)
    assert found.records == ()
    (skipped,) = found.skipped
    return skipped.reason


@pytest.mark.parametrize(
    ("ref", "slug"),
    [
        ("github:octo/app#15", "github-octo-app-15"),
        ("github:Octo/My.App_x#1", "github-Octo-My.App_x-1"),
        ("github:ghe.corp/octo/app#15", "github-ghe.corp-octo-app-15"),
        ("github:ghe.corp:8443/octo/app#15", "github-ghe.corp-8443-octo-app-15"),
    ],
)
def test_slugs_are_those_of_the_loop(ref: str, slug: str) -> None:
    assert loop_slug(WorkItemRef.parse(ref)) == slug


def test_session_names_are_as_tmux_spells_them() -> None:
    assert loop_session_name(WorkItemRef.parse("github:octo/foo.js#15")) == "loop-github-octo-foo_js-15"
    assert as_tmux_spells("loop-a.b:c") == "loop-a_b_c"


def test_a_record_of_v019(tmp_path: Path) -> None:
    path = put(tmp_path, v19())
    record = one(tmp_path)
    assert str(record.ref) == "github:octo/app#15"
    assert (record.harness, record.harness_session_id) == ("claude", "0c5b2c1e-7c0a-4a52-8a55-2f6c7f2f9d10")
    assert (record.cwd, record.status, record.runner) == ("/src/app", "active", "tmux")
    assert (record.tmux_target, record.path) == ("loop-github-octo-app-15", str(path))
    assert record.created_at and record.created_at.isoformat() == "2026-07-25T10:00:00+00:00"
    assert record.last_event_at and record.last_event_at.hour == 11


def test_what_v019_leaves_out_has_its_defaults(tmp_path: Path) -> None:
    keys = ("workItem", "harness", "harnessSessionId", "cwd")
    put(tmp_path, {key: v19()[key] for key in keys})
    record = one(tmp_path)
    assert (record.status, record.runner, record.tmux_target) == ("active", "process", "")
    assert (record.created_at, record.last_event_at) == (None, None)


def test_a_record_of_v11_with_its_pull_requests(tmp_path: Path) -> None:
    def pull(number: int, target: str) -> dict[str, object]:
        return v11(workItem={"ref": f"github:octo/app#{number}"}, harnessSessionId=f"c-{number}", tmuxTarget=target)

    entries = [pull(16, "loop-github-octo-app-16"), pull(17, ""), {"workItem": None}, 5]
    put(tmp_path, v11(status="paused", pullRequests=entries))
    found = read_loop_folder(tmp_path)
    assert [(str(r.ref), r.status, r.runner, r.tmux_target) for r in found.records] == [
        ("github:octo/app#15", "paused", "tmux", "loop-github-octo-app-15"),
        ("github:octo/app#16", "active", "tmux", "loop-github-octo-app-16"),
    ]
    assert [(s.ref, s.reason) for s in found.skipped] == [
        ("github:octo/app#17", "has no session of its own: that of github:octo/app#15 serves it"),
        ("", "pullRequests[2]: ref: is missing"),
        ("", "pullRequests[3]: is no object"),
    ]


def test_a_record_of_v11_that_was_never_started_has_no_terminal(tmp_path: Path) -> None:
    put(tmp_path, v11(tmuxTarget=""))
    assert one(tmp_path).runner == "process"


def test_the_runner_that_v11_ignores_does_not_hide_a_terminal(tmp_path: Path) -> None:
    put(tmp_path, v19(runner="process"))
    assert one(tmp_path).runner == "tmux"


@pytest.mark.parametrize(
    "below", ["", "sessions", "local", "local/sessions", "state/sessions", "state/local", "state/local/sessions"]
)
def test_the_registry_is_found_below_what_is_named(tmp_path: Path, below: str) -> None:
    put(tmp_path / below, v19())
    assert one(tmp_path).path == str(tmp_path / below / "github-octo-app-15.json")


def test_other_files_are_counted_and_left_alone(tmp_path: Path) -> None:
    put(tmp_path, v19())
    put(tmp_path, {"items": {}}, "poll-state.json")
    put(tmp_path, "{torn", "paused.json")
    put(tmp_path, {"anything": 1}, "report-2026.json")
    put(tmp_path, "text", "notes-1.txt")
    (tmp_path / ".tmpabc.tmp").write_text("{")
    found = read_loop_folder(tmp_path)
    assert (len(found.records), found.skipped, found.ignored) == (1, (), 3)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"workItem": {"ref": "github:octo/app#16"}}, "is not the file of github:octo/app#16"),
        ({"workItem": {"ref": "github:octo/App#15"}}, "is not the file of github:octo/App#15"),
        ({"workItem": {"ref": "../../etc#1"}}, "is no work item"),
        ({"workItem": {"ref": 5}}, "ref: must be a string"),
        ({"workItem": "github:octo/app#15"}, "ref: is missing"),
        ({"workItem": {"ref": "jira:acme.example/APP-15"}}, "is no work item"),
        ({"harness": None}, "harness: is missing"),
        ({"harness": "claude --yolo"}, "harness: 'claude --yolo' cannot be one"),
        ({"harnessSessionId": "--dangerous"}, "harnessSessionId: '--dangerous' cannot be one"),
        ({"harnessSessionId": "a\n"}, "harnessSessionId: 'a\\n' cannot be one"),
        ({"harnessSessionId": ""}, "harnessSessionId: '' cannot be one"),
        ({"harnessSessionId": "x" * 129}, "cannot be one"),
        ({"cwd": None}, "cwd: is missing"),
        ({"status": "zombie"}, "status: 'zombie' is not one of active, paused, closed"),
        ({"status": True}, "status: must be a string"),
        ({"runner": "ssh", "tmuxTarget": ""}, "runner: 'ssh' is not one of"),
        ({"tmuxTarget": ["a"]}, "tmuxTarget: must be a string"),
        ({"createdAt": "yesterday"}, "createdAt: 'yesterday' is no time"),
        ({"createdAt": 5}, "createdAt: must be a string"),
    ],
)
def test_an_edited_record_is_skipped_with_the_reason(tmp_path: Path, changes: dict[str, object], reason: str) -> None:
    put(tmp_path, v19(**changes))
    assert reason in why(tmp_path)


def test_two_items_that_share_a_file_name_are_told_apart_by_what_is_inside(tmp_path: Path) -> None:
    item = {"ref": "github:a/b-c#1"}
    put(tmp_path, v19(workItem=item, tmuxTarget="loop-github-a-b-c-1"), "github-a-b-c-1.json")
    assert str(one(tmp_path).ref) == "github:a/b-c#1"


@pytest.mark.parametrize("cwd", [".", "src", "", "/a\nb", "~"])
def test_a_folder_that_means_nothing_here_is_not_kept(tmp_path: Path, cwd: str) -> None:
    put(tmp_path, v19(cwd=cwd))
    assert one(tmp_path).cwd == ""


@pytest.mark.parametrize("text", ["", "{", '{"workItem": {"ref": "github:oc', "\x00" * 64, "[" * 100_000])
def test_torn_json_is_skipped_with_the_reason(tmp_path: Path, text: str) -> None:
    put(tmp_path, text)
    assert why(tmp_path).startswith("not readable as JSON")


def test_bytes_that_are_no_text_are_skipped(tmp_path: Path) -> None:
    put(tmp_path, v19()).write_bytes(b"\xff\xfe{}")
    assert why(tmp_path).startswith("not readable as JSON")


def test_a_file_of_another_shape_is_none_of_the_loop(tmp_path: Path) -> None:
    put(tmp_path, [v19()])
    assert read_loop_folder(tmp_path).ignored == 1


def test_links_are_not_followed(tmp_path: Path) -> None:
    outside = put(tmp_path / "outside", v19())
    folder = tmp_path / "sessions"
    folder.mkdir()
    (folder / outside.name).symlink_to(outside)
    assert why(folder) == "is a symbolic link"
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "sessions").symlink_to(outside.parent)
    (tmp_path / "root" / "local").symlink_to(tmp_path)
    found = read_loop_folder(tmp_path / "root")
    assert (found.records, found.skipped) == ((), ())


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "github-octo-app-15.json")
    (tmp_path / "github-octo-app-16.json").mkdir()
    assert [skipped.reason for skipped in read_loop_folder(tmp_path).skipped] == ["is no regular file"] * 2


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    put(tmp_path, v19(recentDeliveries=["x" * 2_000_000]))
    assert why(tmp_path) == "is larger than 1024 KiB"


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="No such file"):
        read_loop_folder(tmp_path / "nowhere")
    with pytest.raises(StateError, match="Not a directory"):
        read_loop_folder(put(tmp_path, v19()))


def test_pull_requests_that_are_no_list_are_named(tmp_path: Path) -> None:
    put(tmp_path, v11(pullRequests={"7": "x"}))
    found = read_loop_folder(tmp_path)
    assert [record.ref.number for record in found.records] == [15]
    assert [skipped.reason for skipped in found.skipped] == ["pullRequests is no list"]


def test_a_name_without_end_is_not_repeated(tmp_path: Path) -> None:
    put(tmp_path, v19(workItem={"ref": f"github:{'a' * 3000}/app#15", "type": "issue"}))
    (skipped,) = read_loop_folder(tmp_path).skipped
    assert "is not the file of" in skipped.reason
    assert len(skipped.reason) < 500

"""ports.Workspaces with git: what is made, what survives, what is saved, and what is never touched."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from loopctl.adapters import worktrees as adapter
from loopctl.adapters import worktrees_save as saving
from loopctl.adapters.worktrees_look import state_of
from loopctl.adapters.worktrees_none import NoWorkspaces
from loopctl.errors import StateError
from loopctl.model.facts import Known
from loopctl.model.refs import WorkItemRef
from loopctl.model.workspaces import Removal, Workspace, safe_branch, worktree_path
from tests.git.kit import BRANCH, REF, Scratch, git, make_origin

OTHER = WorkItemRef.parse("github:octo/app#2")


# --- making them ------------------------------------------------------------------------------------------------------


def test_an_item_gets_a_worktree_on_its_branch_from_the_default_branch(box: Scratch) -> None:
    path = box.prepare()
    assert str(path) == worktree_path(str(box.root), REF)
    assert (path / "a.txt").read_text() == "one\n"
    assert box.git(path, "status", "--porcelain", "--branch") == f"## {BRANCH}"
    assert box.look(path) == Workspace(str(path), exists=True, ours=True, branch=BRANCH)
    assert stat.S_IMODE(box.root.stat().st_mode) == 0o700


def test_items_of_a_repository_share_one_clone_and_each_has_its_own_worktree(box: Scratch) -> None:
    one, two = box.prepare(), box.prepare(OTHER, "loop/issue-2")
    assert [path.name for path in (box.root / "clones").iterdir()] == ["octo-app.git"]
    assert box.git(one, "rev-parse", "--git-common-dir") == box.git(two, "rev-parse", "--git-common-dir")
    commit = box.commit(one)
    assert box.git(two, "cat-file", "-t", commit) == "commit"
    assert not (two / "c.txt").exists()


def test_it_begins_at_what_the_default_branch_is_now(box: Scratch) -> None:
    box.prepare()
    seed = box.folder / "seed"
    (seed / "a.txt").write_text("news\n")
    git(seed, "commit", "-qam", "second")
    git(seed, "push", "-q", "origin", "trunk:main")
    git(box.origin, "symbolic-ref", "HEAD", "refs/heads/main")
    assert (box.prepare(OTHER, "loop/issue-2") / "a.txt").read_text() == "news\n"


def test_one_that_is_there_is_taken_as_it_is(box: Scratch) -> None:
    path = box.prepare()
    (path / "a.txt").write_text("half done\n")
    again = box.open().prepare(REF, "another/branch")
    assert (again.path, again.branch) == (str(path), BRANCH)
    assert "not on another/branch" in again.note
    assert (path / "a.txt").read_text() == "half done\n"


def test_a_branch_that_exists_is_gone_on_with(box: Scratch) -> None:
    """The local one first, then origin's, with what was pushed to it."""
    path = box.prepare()
    commit = box.commit(path)
    box.git(path, "push", "-q", "-u", "origin", BRANCH)
    assert box.remove(path).problem == ""
    assert box.git(box.prepare(), "rev-parse", "HEAD") == commit
    shutil.rmtree(box.root)
    path = box.prepare()
    assert box.git(path, "rev-parse", "HEAD", "@{upstream}").split() == [commit, commit]


def test_a_vanished_one_is_a_fact_and_is_made_anew_with_its_commits(box: Scratch) -> None:
    path = box.prepare()
    commit = box.commit(path)
    shutil.rmtree(path)
    assert box.look(path) == Workspace(str(path), exists=False)
    assert box.remove(path) == Removal()
    assert box.git(box.prepare(), "rev-parse", "HEAD") == commit
    assert box.look(path).unpushed == 1


def test_commits_on_no_branch_stay_in_the_clone_when_their_worktree_vanishes(box: Scratch) -> None:
    path = box.prepare()
    box.git(path, "checkout", "-q", "--detach")
    commit = box.commit(path)
    shutil.rmtree(path)
    box.prepare()
    assert (
        box.git(box.clone, "for-each-ref", "--contains", commit, "--format=%(refname)") == f"refs/loopctl/kept/{commit}"
    )


def test_without_its_origin_a_clone_serves_on_and_says_so(box: Scratch) -> None:
    box.prepare()
    box.origin.rename(box.folder / "moved.git")
    made = box.trees.prepare(OTHER, "loop/issue-2")
    assert "not brought up to date" in made.note
    assert (Path(made.path) / "a.txt").exists()


@pytest.mark.parametrize("name", ["refs/heads/loop/issue-2.lock", "refs/remotes/origin/trunk.lock"])
def test_a_lock_that_was_left_behind_is_named_and_taken_away_once_it_is_old(box: Scratch, name: str) -> None:
    box.prepare()
    seed = box.folder / "seed"
    (seed / "a.txt").write_text("news\n")
    git(seed, "commit", "-qam", "second")
    git(seed, "push", "-q", "origin", "trunk")
    lock = box.clone / name
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.touch()
    try:
        told = box.trees.prepare(OTHER, "loop/issue-2").note
    except StateError as error:
        told = error.message
    assert f"'{box.clone / name}': File exists" in told
    os.utime(lock, (0, 0))
    again = box.trees.prepare(OTHER, "loop/issue-2")
    assert (again.note, lock.exists()) == ("", False)


@pytest.mark.parametrize("how", ["missing", "empty"])
def test_without_a_clone_it_fails_and_leaves_nothing(box: Scratch, how: str) -> None:
    shutil.rmtree(box.origin)
    if how == "empty":
        git(box.folder, "init", "-q", "--bare", str(box.origin))
    with pytest.raises(StateError, match="no clone of"):
        box.prepare()
    assert list((box.root / "clones").iterdir()) == []
    assert box.inside() == set()


def test_what_others_put_in_the_way_is_left_alone(box: Scratch) -> None:
    path = Path(worktree_path(str(box.root), REF))
    box.prepare(OTHER, "loop/issue-2")
    path.mkdir()
    (path / "notes").write_text("mine")
    with pytest.raises(StateError, match="is taken"):
        box.prepare()
    assert "not ours" in box.remove(path, force=True).problem
    assert (path / "notes").read_text() == "mine"
    shutil.rmtree(box.clone)
    make_origin(box.folder / "x").rename(box.clone)
    with pytest.raises(StateError, match="no clone of github:octo/app"):
        box.prepare(OTHER, "loop/issue-2")


def test_one_branch_is_never_in_two_worktrees(box: Scratch) -> None:
    box.prepare()
    with pytest.raises(StateError, match="already"):
        box.prepare(OTHER, BRANCH)
    assert box.inside() == {REF.slug}


@pytest.mark.parametrize(
    "ref", ["github:a.b/c#1", "github:a-b/c#1", "github:a/b.git#1", "github:ghe.corp:8443/a/b#1", "items:x/y#1"]
)
def test_names_that_need_care_have_folders_of_their_own(box: Scratch, ref: str) -> None:
    path = box.prepare(WorkItemRef.parse(ref), safe_branch("$(touch x); -f\n../..//a..b.lock@{-1}~^:?*[\\"))
    assert path.parent == box.root / "worktrees"
    assert box.prepare(WorkItemRef.parse(ref.upper().replace("GITHUB", "github").replace("ITEMS", "items"))) == path
    assert box.remove(path).problem == ""


def test_a_branch_that_is_no_name_is_refused(box: Scratch) -> None:
    for name in ("-f", "a b", "a..b", "", "HEAD", "a/.b", "x.lock"):
        with pytest.raises(StateError, match="no name for a branch"):
            box.prepare(REF, name)


def test_many_at_once_from_nothing(box: Scratch) -> None:
    """Processes of their own, as two state roots that share a workspace root would be."""
    refs = [WorkItemRef.parse(f"github:octo/app#{number}") for number in range(1, 5)]
    children = [forked(partial(box.open().prepare, ref, f"loop/{ref.number}")) for ref in refs]
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 4
    assert box.inside() == {ref.slug for ref in refs}
    assert all(box.look(box.root / "worktrees" / ref.slug).branch == f"loop/{ref.number}" for ref in refs)


def test_git_runs_no_hook_asks_nobody_and_knows_no_secret(box: Scratch) -> None:
    hooks = box.folder / "hooks"
    hooks.mkdir()
    ran = box.folder / "ran"
    for name in ("post-checkout", "reference-transaction", "post-index-change"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {ran}\n")
        (hooks / name).chmod(0o755)
    template = box.folder / "template"
    shutil.copytree(hooks, template / "hooks")
    seen = box.folder / "env"
    git(box.folder, "config", "--global", "core.hooksPath", str(hooks))
    git(box.folder, "config", "--global", "init.templateDir", str(template))
    git(box.folder, "config", "--global", "core.askPass", f"touch {ran}")
    spy = box.folder / "git"
    spy.write_text(f'#!/bin/sh\n{{ env; echo "ARGS=$*"; }} >> {seen}\nexec {shutil.which("git")} "$@"\n')
    spy.chmod(0o755)
    trees = box.open(
        GH_TOKEN="ghp_1", MY_SECRET="s3cret", GIT_DIR="/nowhere", GIT_WORK_TREE="/", SSH_ASKPASS=str(spy), DISPLAY=":0"
    )
    trees._git._binary = str(spy)
    path = Path(trees.prepare(REF, BRANCH).path)
    (path / "new").write_text("x")
    # An agent can write the clone's config: what it names there is not run.
    git(path, "config", "core.fsmonitor", f"touch {ran}", env=box.env)
    assert trees.remove(str(path), force=True).saved
    text = seen.read_text()
    assert not ran.exists()
    for word in ("s3cret", "/nowhere", "SSH_ASKPASS=", "DISPLAY="):
        assert word not in text
    calls = text.split("ARGS=")
    with_token = [args.split("\n")[0] for env, args in pairwise(calls) if "ghp_1" in env]
    assert with_token
    assert all(" fetch " in args or " remote set-head " in args for args in with_token)


#: Ways in which a repository's config has a program run (`{ran}` is made then), or shows another world.
PLANTED = """\
[core]
    sshCommand = touch {ran}
    gitProxy = touch {ran}
    hooksPath = {hooks}
    fsmonitor = touch {ran}
    excludesFile = {all}
    worktree = /
[remote "origin"]
    uploadpack = touch {ran}; git-upload-pack
[credential]
    helper = "!touch {ran}"
[url "/nowhere"]
    insteadOf = {origin}
[filter "x"]
    clean = touch {ran}; cat
    smudge = touch {ran}; cat
[diff "x"]
    textconv = touch {ran}; cat
[status]
    showUntrackedFiles = no
[include]
    path = {more}
[extensions]
    worktreeConfig = true
"""


def test_what_agents_write_into_the_clone_is_neither_run_nor_believed(box: Scratch) -> None:
    path = box.prepare()
    ran, hooks, more, everything = (box.folder / name for name in ("ran", "hooks", "more", "all"))
    hooks.mkdir()
    for name in ("post-checkout", "reference-transaction", "post-index-change"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {ran}\n")
        (hooks / name).chmod(0o755)
    shutil.copytree(hooks, box.clone / "hooks")
    (box.clone / "info").mkdir()
    (box.clone / "info" / "attributes").write_text("* filter=x diff=x\n")
    everything.write_text("*\n")
    shutil.copy(everything, box.clone / "info" / "exclude")
    more.write_text(f'[remote "origin"]\n    uploadpack = touch {ran}; git-upload-pack\n')
    shutil.copy(more, box.clone / "worktrees" / path.name / "config.worktree")
    with (box.clone / "config").open("a") as config:
        config.write(PLANTED.format(ran=ran, hooks=hooks, all=everything, origin=box.origin, more=more))
    (path / "work.txt").write_text("precious\n")
    assert box.look(path).uncommitted == ("work.txt",)
    made = box.trees.prepare(OTHER, "loop/issue-2")
    assert made.note == ""
    assert box.remove(path).has_work
    assert box.remove(path, force=True).saved
    assert box.remove(Path(made.path)) == Removal()
    assert not ran.exists()


# --- work survives ----------------------------------------------------------------------------------------------------


def _changed(box: Scratch, path: Path) -> None:
    (path / "a.txt").write_text("precious\n")


def _staged(box: Scratch, path: Path) -> None:
    (path / "a.txt").write_text("precious\n")
    box.git(path, "add", "a.txt")


def _untracked(box: Scratch, path: Path) -> None:
    (path / "deep").mkdir()
    (path / "deep" / "new \"file'\n$(x).txt").write_text("precious\n")
    git(path, "config", "status.showUntrackedFiles", "no", env=box.env)


def _unpushed(box: Scratch, path: Path) -> None:
    box.commit(path)


def _detached(box: Scratch, path: Path) -> None:
    box.git(path, "checkout", "-q", "--detach")
    box.commit(path)


def _stashed(box: Scratch, path: Path) -> None:
    (path / "a.txt").write_text("precious\n")
    box.git(path, "stash", "push", "-q", "-m", "on main: a lie")


def _deleted(box: Scratch, path: Path) -> None:
    (path / "a.txt").unlink()


def _assumed(box: Scratch, path: Path) -> None:
    box.git(path, "update-index", "--assume-unchanged", "a.txt")
    (path / "a.txt").write_text("precious\n")


def _skipped(box: Scratch, path: Path) -> None:
    box.git(path, "update-index", "--skip-worktree", "a.txt")
    (path / "a.txt").write_text("precious\n")


def _halfway(box: Scratch, path: Path) -> None:
    box.commit(path)
    box.git(path, "push", "-q", "origin", "HEAD")
    subprocess.run(
        ["git", "rebase", "-q", "--exec", "false", "HEAD~1"], cwd=path, env=box.env, check=False, capture_output=True
    )


def _orphan(box: Scratch, path: Path) -> None:
    box.git(path, "checkout", "-q", "--orphan", "fresh")


WORK: list[Callable[[Scratch, Path], None]] = [
    _changed,
    _staged,
    _untracked,
    _unpushed,
    _detached,
    _stashed,
    _deleted,
    _assumed,
    _skipped,
    _halfway,
    _orphan,
]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Scratch:
    """For tests that use an item of their own each."""
    return Scratch(tmp_path_factory.mktemp("shared"))


@pytest.mark.parametrize("work", WORK, ids=lambda work: work.__name__[1:])
def test_work_is_seen_and_nothing_but_force_takes_it(shared: Scratch, work: Callable[[Scratch, Path], None]) -> None:
    number = WORK.index(work) + 10
    path = shared.prepare(WorkItemRef.parse(f"github:octo/app#{number}"), f"loop/issue-{number}")
    work(shared, path)
    before = contents(path)
    seen = shared.look(path)
    assert seen.has_work
    removal = shared.remove(path)
    assert (removal.has_work, removal.saved) == (True, "")
    assert removal.problem == f"it has {' and '.join(seen.work)}"
    assert contents(path) == before
    if work in {_detached, _halfway, _orphan}:
        assert shared.remove(path, force=True).saved
        assert not path.exists()


def test_a_clean_one_goes_and_so_does_its_branch_once_it_is_merged(box: Scratch) -> None:
    path = box.prepare()
    (path / "build.log").write_text("git ignores this\n")
    (path / "x.log").symlink_to(box.folder)
    (path / "ro.log").mkdir()
    (path / "ro.log" / "f").write_text("x")
    (path / "ro.log").chmod(0o555)
    assert box.remove(path) == Removal()
    assert (box.inside(), (box.folder / "seed" / "a.txt").exists()) == (set(), True)
    assert BRANCH not in box.git(box.clone, "branch", "--list")
    assert not box.saved.exists()
    # One with commits of its own stays in the clone, pushed or not.
    path = box.prepare()
    commit = box.commit(path)
    box.git(path, "push", "-q", "origin", BRANCH)
    assert box.remove(path) == Removal()
    assert box.git(box.clone, "rev-parse", f"refs/heads/{BRANCH}") == commit
    assert box.git(box.clone, "worktree", "list", "--porcelain").count("worktree ") == 1


def test_what_was_pushed_once_is_pushed_though_its_branch_was_deleted_over_there(box: Scratch) -> None:
    """A pull request that was squashed, its branch deleted: nothing is left of these commits on origin."""
    path = box.prepare()
    box.commit(path)
    box.git(path, "push", "-q", "origin", BRANCH)
    git(box.origin, "branch", "-D", BRANCH)
    git(box.folder, "config", "--global", "fetch.prune", "true")
    box.prepare(OTHER, "loop/issue-2")
    assert not box.look(path).has_work
    assert box.remove(path).problem == ""


def test_forced_it_saves_all_of_it_first(box: Scratch) -> None:
    path = box.prepare()
    (path / "b.txt").write_text("stashed\n")
    (path / "u.txt").write_text("stashed and untracked\n")
    box.git(path, "stash", "push", "-q", "-u")
    commit = box.commit(path)
    (path / "a.txt").write_text("changed\n")
    (path / "b.txt").unlink()
    (path / "raw.bin").write_bytes(bytes(range(256)))
    (path / "run.sh").write_text("#!/bin/sh\n")
    (path / "run.sh").chmod(0o755)
    (path / "link").symlink_to("/etc/hostname")
    box.git(path, "update-index", "--assume-unchanged", "c.txt")
    (path / "c.txt").write_text("hidden\n")
    saved = Path(box.remove(path, force=True).saved)
    assert not path.exists()
    assert sorted(file.name for file in saved.iterdir()) == [
        *("README.txt", "changes.patch", "commits.bundle", "files.tar", "stash-0.patch")
    ]
    assert {stat.S_IMODE(file.stat().st_mode) for file in saved.iterdir()} == {0o600}
    assert stat.S_IMODE(saved.stat().st_mode) == 0o700
    # All of it comes back, in a clone that has never seen any of it.
    back = box.folder / "back"
    box.git(box.folder, "clone", "-q", str(box.origin), str(back))
    box.git(back, "fetch", "-q", str(saved / "commits.bundle"), "HEAD")
    assert box.git(back, "rev-parse", "FETCH_HEAD") == commit
    box.git(back, "checkout", "-q", "FETCH_HEAD")
    box.git(back, "apply", str(saved / "changes.patch"))
    assert (back / "a.txt").read_text() == "changed\n"
    assert (back / "c.txt").read_text() == "hidden\n"
    assert not (back / "b.txt").exists()
    assert (back / "raw.bin").read_bytes() == bytes(range(256))
    assert os.access(back / "run.sh", os.X_OK)
    assert (back / "link").readlink() == Path("/etc/hostname")
    box.git(back, "checkout", "-qf", commit)
    box.git(back, "apply", str(saved / "stash-0.patch"))
    assert (back / "b.txt").read_text() == "stashed\n"
    assert (back / "u.txt").read_text() == "stashed and untracked\n"
    # And the clone keeps commits and stashes.
    assert box.git(box.clone, "rev-parse", f"refs/heads/{BRANCH}") == commit


def test_saved_files_come_back_byte_for_byte_whatever_git_makes_of_them(
    box: Scratch, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"core.autocrlf": "input", "filter.strip.clean": "sed -e s/OUTPUT.*//"}.items():
        git(box.folder, "config", "--global", name, value)
    attributes = box.folder / ".config" / "git" / "attributes"
    attributes.parent.mkdir(parents=True)
    attributes.write_text("*.ipynb filter=strip\n")
    path = box.prepare()
    files = {
        b"a.txt": b"one\r\nanother\r\nlast\n",
        b"dos.bat": b"echo 1\r\n",
        b"n.ipynb": b"code\nOUTPUT of a week\n",
        b"deep/\xff": b"x",
    }
    (path / "deep").mkdir()
    for name, content in files.items():
        (path / os.fsdecode(name)).write_bytes(content)
    (path / "run").symlink_to("dos.bat")
    (path / "dos.bat").chmod(0o755)
    flushed: list[Path] = []
    monkeypatch.setattr(saving, "_flush", flushed.append)
    saved = Path(box.remove(path, force=True).saved)
    # The folder was new too.
    assert flushed.count(box.saved.parent) == 1
    back = box.folder / "back"
    box.git(box.folder, "clone", "-q", str(box.origin), str(back))
    subprocess.run(["tar", "-xf", str(saved / "files.tar")], cwd=back, check=True)
    assert {name: (back / os.fsdecode(name)).read_bytes() for name in files} == files
    assert (back / "run").readlink() == Path("dos.bat")
    assert os.access(back / "dos.bat", os.X_OK)


def test_what_was_staged_and_is_in_no_file_any_more_is_saved(box: Scratch) -> None:
    path = box.prepare()
    (path / "a.txt").write_text("staged\n")
    box.git(path, "add", "a.txt")
    (path / "a.txt").unlink()
    saved = Path(box.remove(path, force=True).saved)
    box.git(box.folder / "seed", "apply", str(saved / "staged.patch"))
    assert (box.folder / "seed" / "a.txt").read_text() == "staged\n"


def test_a_repository_within_cannot_be_saved_so_it_stays(box: Scratch) -> None:
    path = box.prepare()
    inner = path / "vendor" / "lib"
    inner.mkdir(parents=True)
    git(inner, "init", "-q")
    (inner / "f").write_text("precious\n")
    git(inner, "add", "f")
    git(inner, "commit", "-qm", "inner", env=box.env)
    removal = box.remove(path, force=True)
    assert "repository of its own" in removal.problem
    assert (inner / "f").read_text() == "precious\n"
    assert not box.saved.exists() or list(box.saved.iterdir()) == []


@pytest.mark.parametrize("at", ["module", "inside"])
def test_commits_of_a_submodule_are_work_on_whatever_branch_they_are(box: Scratch, at: str) -> None:
    other = make_origin(box.folder / "other")
    allowed = ("-c", "protocol.file.allow=always")
    path = box.prepare()
    box.git(path, *allowed, "submodule", "--quiet", "add", str(other), "lib")
    if at == "inside":
        shutil.rmtree(path / "lib")
        box.git(path, "clone", "-q", str(other), "lib")
    box.git(path, "commit", "-qam", "a submodule")
    box.git(path, "push", "-q", "origin", "HEAD")
    assert not box.look(path).has_work
    box.git(path / "lib", "checkout", "-q", "-b", "aside")
    box.commit(path / "lib")
    box.git(path / "lib", "checkout", "-q", "trunk")
    assert box.look(path).uncommitted == ("(submodule lib has commits of its own)",)
    assert box.remove(path).has_work
    assert box.remove(path, force=True).problem
    assert path.exists()


def test_what_cannot_be_saved_stays(box: Scratch) -> None:
    path = box.prepare()
    (path / "new").write_text("precious\n")
    box.saved.parent.mkdir()
    box.saved.write_text("a file is in the way")
    assert "cannot be saved" in box.remove(path, force=True).problem
    assert (path / "new").read_text() == "precious\n"


@pytest.mark.parametrize(("force", "look"), [(False, 1), (False, 2), (True, 1), (True, 2), (True, 3)])
def test_work_that_comes_while_it_is_being_removed(
    box: Scratch, monkeypatch: pytest.MonkeyPatch, look: int, force: bool
) -> None:
    """After one of the looks, a process whose folder it is writes a file and commits it."""
    path = box.prepare()
    if force:
        (path / "z").write_text("so that there is something to save\n")
    commits = []

    def racing(*args: object) -> Workspace:
        nonlocal look
        found = state_of(*args)  # type: ignore[arg-type]
        look -= 1
        if look == 0:
            commits.append(box.commit(path if path.exists() else path.parent / ".leaving" / path.name))
        return found

    seen = look
    monkeypatch.setattr(adapter, "state_of", racing)
    removal = box.remove(path, force=force)
    assert commits
    assert box.git(box.clone, "for-each-ref", "--contains", commits[0], "--format=%(refname)").startswith("refs/heads/")
    if seen == 1 + force:
        # Of what was seen last, this is news: it stays.
        assert removal.has_work
        assert (path / "c.txt").read_text() == "three\n"


# --- cut off anywhere -------------------------------------------------------------------------------------------------


def forked(work: Callable[[], object]) -> int:
    """Do it in a process of its own; its pid."""
    pid = os.fork()
    if pid:
        return pid
    try:
        work()
    except BaseException:  # noqa: BLE001  the parent sees the code
        os._exit(1)
    os._exit(0)


WRITES = {"init", "fetch", "worktree", "bundle", "write-tree", "update-ref"}


def killed_at(step: int, work: Callable[[], object]) -> bool:
    """Do it in a process that is killed before the nth call that changes something; whether it came so far."""

    def run() -> None:
        left = step

        def counted(module: object, name: str) -> None:
            real = getattr(module, name)

            def call(*args: object, **kwargs: object) -> object:
                nonlocal left
                left -= args[2] in WRITES if name == "tried" else "loopctl-git-" not in str(args[0])
                if left == 0:
                    os._exit(9)
                return real(*args, **kwargs)

            setattr(module, name, call)

        from loopctl.adapters.worktrees_git import Git

        counted(Git, "tried")
        counted(Git, "make")
        counted(os, "rename")
        counted(Path, "rename")
        counted(Path, "replace")
        counted(shutil, "rmtree")
        work()

    return os.waitstatus_to_exitcode(os.waitpid(forked(run), 0)[1]) == 9


def test_a_preparation_that_is_cut_off_anywhere_is_finished_by_the_next(box: Scratch) -> None:
    step = 0
    while killed_at(step := step + 1, lambda: box.open().prepare(REF, BRANCH)):
        path = box.prepare()
        assert box.git(path, "status", "--porcelain", "--branch") == f"## {BRANCH}"
        assert box.inside() == {REF.slug}
        shutil.rmtree(box.root)
    assert step == 10


def test_a_removal_that_is_cut_off_anywhere_loses_nothing(box: Scratch) -> None:
    path = Path(worktree_path(str(box.root), REF))
    step = 1
    while True:
        if not path.exists():
            box.prepare()
            (path / "new").write_text("precious\n")
        if not killed_at(step, lambda: box.open().remove(str(path), force=True)):
            break
        step += 1
        seen = box.look(path)
        if seen.exists:
            # Whole, wherever it is now; whatever is done next puts it back.
            assert (seen.ours, seen.uncommitted) == (True, ("new",))
            if not path.exists():
                assert box.remove(path).has_work
            assert (path / "new").read_text() == "precious\n"
        else:
            saved = [(folder / "changes.patch").read_text() for folder in box.saved.glob("[!.]*")]
            assert any("+precious" in text for text in saved)
            shutil.rmtree(box.saved, ignore_errors=True)
    assert step == 12
    assert not path.exists()
    assert box.inside() == set()


def test_a_start_puts_back_what_a_cut_off_removal_had_put_aside(box: Scratch) -> None:
    path = box.prepare()
    (path / "new").write_text("precious\n")
    aside = path.parent / ".leaving" / path.name
    path.rename(aside)
    assert box.look(path).uncommitted == ("new",)
    assert (box.prepare() / "new").read_text() == "precious\n"
    assert not aside.exists()


# --- never outside ----------------------------------------------------------------------------------------------------


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


@pytest.fixture
def precious(box: Scratch) -> Path:
    """A repository of somebody else, with work in it."""
    folder = box.folder / "elsewhere"
    box.git(box.folder, "clone", "-q", str(box.origin), str(folder))
    (folder / "precious").write_text("precious\n")
    return folder


def _link_to(box: Scratch, path: Path, precious: Path) -> None:
    shutil.rmtree(path)
    path.symlink_to(precious)


def _pointer_to(box: Scratch, path: Path, precious: Path) -> None:
    (path / ".git").write_text(f"gitdir: {precious}/.git\n")


def _pointer_to_another(box: Scratch, path: Path, precious: Path) -> None:
    other = box.prepare(OTHER, "loop/issue-2")
    shutil.copy(other / ".git", path / ".git")


def _pointer_link(box: Scratch, path: Path, precious: Path) -> None:
    (path / ".git").unlink()
    (path / ".git").symlink_to(precious / ".git")


def _worktree_of_others(box: Scratch, path: Path, precious: Path) -> None:
    """Somebody else's repository has a worktree there, which names it and is named by it."""
    shutil.rmtree(path)
    theirs = box.folder / "theirs.git"
    box.git(precious, "clone", "-q", "--bare", ".", str(theirs))
    box.git(theirs, "worktree", "add", "-q", "-b", "theirs", str(path))
    (path / "precious").write_text("precious\n")


def _moved_in(box: Scratch, path: Path, precious: Path) -> None:
    shutil.rmtree(path)
    precious.rename(path)


def _linked_folder(box: Scratch, path: Path, precious: Path) -> None:
    elsewhere = box.folder / "trees"
    path.parent.rename(elsewhere)
    path.parent.symlink_to(elsewhere)


def _linked_clones(box: Scratch, path: Path, precious: Path) -> None:
    elsewhere = box.folder / "clones"
    (box.root / "clones").rename(elsewhere)
    (box.root / "clones").symlink_to(elsewhere)


def _shared_with(box: Scratch, path: Path, precious: Path) -> None:
    """An agent lets its worktree take the refs of another repository, where all commits are on a remote branch."""
    commit = box.commit(path)
    git(precious, "fetch", "-q", str(box.clone), BRANCH, env=box.env)
    git(precious, "update-ref", "refs/remotes/origin/x", commit)
    admin = next((box.clone / "worktrees").iterdir())
    (admin / "commondir").write_text(f"{precious}/.git\n")


TRICKS = [
    _worktree_of_others,
    _link_to,
    _pointer_to,
    _pointer_to_another,
    _pointer_link,
    _moved_in,
    _shared_with,
    _linked_folder,
    _linked_clones,
]


@pytest.mark.parametrize("trick", TRICKS, ids=lambda trick: trick.__name__[1:])
def test_tricks_with_links_and_pointers_touch_nothing(
    box: Scratch, precious: Path, trick: Callable[[Scratch, Path, Path], None]
) -> None:
    path = box.prepare()
    trick(box, path, precious)
    before = contents(box.folder)
    seen = box.look(path)
    assert (seen.exists, seen.ours) == (True, False)
    assert seen.reason
    assert box.remove(path, force=True).problem
    with pytest.raises(StateError):
        box.prepare()
    after = contents(box.folder)
    assert {name for name in before if before[name] != after.get(name)} == set()
    assert path.exists()


def test_folders_that_others_could_write_to_are_refused(box: Scratch) -> None:
    box.root.mkdir()
    box.root.chmod(0o777)
    with pytest.raises(StateError, match="written by others"):
        box.prepare()
    box.root.chmod(0o700)
    path = box.prepare()
    box.root.chmod(0o770)
    assert "written by others" in box.remove(path).problem
    assert path.exists()


@pytest.mark.parametrize("path", ["/", "/etc", "relative", "", "{root}", "{root}/worktrees", "{root}/worktrees/.new"])
def test_other_paths_are_not_ours(box: Scratch, path: str) -> None:
    box.prepare()
    named = path.format(root=box.root)
    assert not box.trees.look([named])[named].value.ours  # type: ignore[union-attr]
    box.trees.remove(named, force=True)
    deeper = str(box.root / "worktrees" / REF.slug / ".." / REF.slug)
    assert "not directly below" in box.trees.remove(deeper, force=True).problem
    assert box.inside() == {REF.slug}


def test_a_root_that_is_a_link_is_the_users_own_choice(box: Scratch) -> None:
    real = box.folder / "disk"
    real.mkdir(mode=0o700)
    box.root.symlink_to(real)
    path = box.prepare()
    assert box.look(path).ours
    assert box.remove(path) == Removal()
    assert not path.exists()


def test_what_cannot_be_told_is_unknown_and_stays(box: Scratch) -> None:
    path = box.prepare()
    shutil.rmtree(box.clone / "objects")
    fact = box.trees.look([str(path)])[str(path)]
    assert not isinstance(fact, Known)
    assert "cannot be told" in fact.reason
    assert box.remove(path, force=True).problem
    assert path.exists()


def test_without_a_root_there_are_none(tmp_path: Path) -> None:
    off = NoWorkspaces()
    with pytest.raises(StateError, match=r"routing\.workspace\.root"):
        off.prepare(REF, BRANCH)
    assert off.remove(str(tmp_path), force=True).problem
    assert off.remove(str(tmp_path / "gone"), force=True) == Removal()
    why = "the config names no root for worktrees (routing.workspace.root)"
    assert off.look([str(tmp_path)]) == {str(tmp_path): Known(Workspace(str(tmp_path), exists=True, reason=why))}

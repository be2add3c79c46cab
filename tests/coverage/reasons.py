"""Why the branches that `make coverage` does not reach are not reached: by file, and by the line that they leave from."""

from __future__ import annotations

from collections.abc import Mapping

NARROWED = "says to the type checker what every caller has made sure of"
MOMENT = "takes another process that acts between two calls: make faults, make stress"
COMMAND = "the installed command gets there: tests/e2e"
ODD_ANSWER = "an answer that GitHub's schema does not allow: tests/fuzz gives such ones to the same reader"

REASONS: Mapping[str, Mapping[str, str]] = {
    "executor/apply.py": {
        "elif action.verb == COMMENT:": "a saved plan with another verb is refused when it is read (schemas/plan.schema.json)",
    },
    "executor/close.py": {
        "elif not ending.done:": "an end that is not seen names survivors, but for an interrupt in the very last look"
    },
    "executor/close_case.py": {
        "if isinstance(table, Unknown):": "a server and the process table that are out of sight in one moment"
    },
    "executor/comment.py": {
        "if world.interrupted():": "an interrupt stops the close or start first, whose comment is then not due: tests/unit/test_comments.py",
        "if not id_:": MOMENT,
        "if provider is None:": "an apply asks the sources again first, and an item without one is held there",
    },
    "executor/deliver.py": {"if not messages:": "a plan sets a first cursor or sends messages, never both"},
    "executor/import_loop.py": {"if problem:": "tests/tmux takes sessions over one by one; of many, tests/faults"},
    "executor/mend.py": {"if sighting is None or sighting.pane is None:": NARROWED, "if server is None:": NARROWED},
    "executor/rebuild.py": {
        "if pane.mark:": "a server is listed with marks only",
        "if len(names) > 1:": "tests/e2e/test_lifecycle.py",
    },
    "executor/restart.py": {
        "if result.status != CHANGED:": "a resume that fails and that cannot be cleared away either: tests/faults",
    },
    "executor/start.py": {
        "if written is None:": "the apply lock excludes it; where locks do not work: tests/contract/test_registry.py"
    },
    "executor/take_over.py": {
        "if str(uuid.UUID(pane.mark)) == pane.mark:": "a mark that is an id in another spelling is refused like any other"
    },
    "executor/workspace.py": {"if world.interrupted():": MOMENT, "if mine is None or mine.workspace != path:": MOMENT},
    "planner/checkouts.py": {
        "if fact is None:": "every worktree that a record names is looked at: for an observation made by hand"
    },
    "planner/comments.py": {
        "if template is None:": "every rule with a comment has a template, but where a rule pauses without one"
    },
    "planner/deliveries.py": {
        "if subject.item.kind not in {UNASKED, OUTSIDE}:": "an item that nobody asked about has no rule that listens",
        "if subject.item.value.state != OPEN:": "the rule that listens has matched an open item",
        "elif thread is not None:": "each thread is asked for when one is",
        "if view is None or pane is None:": NARROWED,
        "if view is None or not isinstance(view.sighting, Known):": NARROWED,
    },
    "planner/endings.py": {
        "if view is None or not isinstance(view.sighting, Known):": NARROWED,
        "if view is None or phase not in {RETAINED, GONE} or not isinstance(view.sighting, Known):": NARROWED,
    },
    "planner/facts.py": {
        "if item is not None:": "a condition is asked for an item that is known",
        "if view is None:": NARROWED,
    },
    "planner/resolve.py": {
        "if record is None:": NARROWED,
        "if _FURTHER.get(states[0], 0) > _FURTHER.get(states[1], 0):": "rules that go further than one before: tests/properties",
    },
    "planner/starts.py": {
        "if record and record.reason == RESUME_FAILED:": "the fresh start of the same run follows at once; a cut-off one: tests/faults",
        "if isinstance(other.session.sighting, Unknown):": "the session that cannot be seen is held before: tests/unit/test_apply_troubles.py",
    },
    "adapters/github.py": {
        "if owned:": "nobody asks for the comments of no item",
        "if failure.limited:": "a limit stops, always: tests/gh/test_limits.py",
        "if failure.stop:": "a failure that is no limit and stops nothing: tests/gh/test_lookups.py, by chance of order",
        "if not isinstance(http, Failure):": "gh that fails in the middle of lookups: tests/gh/test_gh_problems.py, by chance of order",
    },
    "adapters/github_answer.py": {
        'if text_at(other, "state") == "OPEN":': "GitHub is asked for open ones; a closed one in the answer is not counted"
    },
    "adapters/github_api.py": {"if refused := self._refused(points=False):": "the question before it is refused first"},
    "adapters/github_health.py": {"if budget is None:": "a GitHub Enterprise Server without rate limits"},
    "adapters/github_say.py": {
        "for _ in range(PAGES):": "an item with a thousand comments",
        "if not start or start == cursor:": "an answer that GitHub's schema does not allow",
        'if "not accessible by" in error.message:': "a token without write access",
    },
    "adapters/github_threads.py": {
        "if at is None:": ODD_ANSWER,
        "if more is not True or not cursor or cursor == want.cursor:": ODD_ANSWER,
    },
    "adapters/harnesses_health.py": {"if default not in harnesses:": COMMAND},
    "adapters/journal.py": {"if mine.st_size < max_bytes or not os.path.samestat(mine, path.stat()):": MOMENT},
    "adapters/journal_reader.py": {"if following.is_at(path):": MOMENT},
    "adapters/registry_check.py": {
        'if db.execute("PRAGMA application_id").fetchone() != (APPLICATION_ID,):': "the header was read before: a file that changes in between",
    },
    "adapters/registry_database.py": {"if not kept.exists():": "a second upgrade from the same version"},
    "adapters/registry_lock.py": {"if lock.whole:": COMMAND},
    "adapters/shell.py": {"if _kill_group(process):": MOMENT, "if not process.is_alive():": MOMENT},
    "adapters/processes.py": {
        'if sys.platform == "linux":': "another operating system; its table: tests/contract, tests/tmux/test_portable_table.py"
    },
    "adapters/tmux.py": {"for attempt in (1, 2):": "a server that goes away twice in a row"},
    "adapters/tmux_capture.py": {"if pane.history:": "a program on the alternate screen of a pane without history"},
    "adapters/tmux_start.py": {"if parsed:": "tmux that prints a line of its own that does not fit: tests/fuzz"},
    "adapters/worktrees.py": {
        "if tree.clone != Path(os.path.realpath(clone.path)):": "a worktree of one of our clones under the name of an item of another one",
        "if not os.path.lexists(path):": MOMENT,
        "if isinstance(tree, str):": MOMENT,
        "if not stat.S_ISDIR(os.lstat(name, dir_fd=folder).st_mode):": "only worktrees are put aside: a file there is somebody else's doing",
    },
    "adapters/worktrees_clone.py": {
        "if not half.has(_DEFAULT):": "a repository without a commit",
        'if admin.is_symlink() or not (admin / "gitdir").is_file():': "what is left of a git that was killed",
    },
    "adapters/worktrees_look.py": {"if not text.isdecimal():": "a git that prints something else than a number"},
    "adapters/worktrees_save.py": {'if _is_there(tree, f"{stash.commit}^3", git):': "a stash without untracked files"},
}


def reason(file: str, line: str) -> str:
    """Why a branch that leaves from this line of a file (`loopctl/...`) is not reached, or ""."""
    return REASONS.get(file.removeprefix("loopctl/"), {}).get(line.strip(), "")

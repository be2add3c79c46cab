"""Mistakes in seeing: doubt that is taken for an answer, and one thing that is taken for another."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_FORMER_SERVER = """\
    if view.server is None or (record.server not in {None, view.server} and not marked):
        return _nothing_there(record, view, table)
    if record.server is not None and record.server != view.server:
        return Unknown(
            f"identity mismatch: the record's tmux server is {record.server.pid}, "
            f"pane {marked[0].pane_id} with its mark is on server {view.server.pid}"
        )
    # Ids mean something only on the server they were read from; a record that was never bound has its mark alone.
    bound = record.server == view.server and bool(record.pane_id)
"""

LOOKING = (
    Mutant(
        "unknown read as absent",
        "loopctl/observe/sight.py",
        "    if isinstance(found, Unknown):\n        return found\n",
        "    if isinstance(found, Unknown):\n        return Known(Sighting(ABSENT_PANE))\n",
        ("tests/unit/controller/test_loop.py::test_a_server_that_cannot_be_seen_ends_nothing",),
        "A tmux server that does not answer would have its records closed while its agents run on.",
    ),
    Mutant(
        "silence read as closed",
        "loopctl/planner/match.py",
        "    if isinstance(subject.item, Unknown):\n        yield subject.item\n        return\n",
        "    if isinstance(subject.item, Unknown):\n        return\n",
        ("tests/unit/test_match.py",),
        "While GitHub is down every session would be ended.",
    ),
    Mutant(
        "an item that moved read as none of the rule's",
        "loopctl/planner/match.py",
        "    if item.state in ELSEWHERE and item.state not in match.item.state:\n",
        "    if False:\n",
        ("tests/unit/test_match.py",),
        "The session of a transferred item would be forgotten without a word.",
    ),
    Mutant(
        "an item that its repository does not name read as missing",
        "loopctl/adapters/github_answer.py",
        '    if error.type == "NOT_FOUND" and whole_repository:\n',
        '    if error.type == "NOT_FOUND" and whole_repository and False:\n',
        ("tests/unit/test_github_answer.py", "tests/gh/test_github.py"),
        "A token that lost sight of a repository would end all its sessions.",
    ),
    Mutant(
        "a cut listing read as whole",
        "loopctl/adapters/github_answer.py",
        "    if more is False and isinstance(total, int) and seen >= total:\n",
        "    if more is False:\n",
        ("tests/unit/test_github_answer.py",),
        "What a cut page left out would count as not there.",
    ),
    Mutant(
        "a time-out of tmux read as no server",
        "loopctl/adapters/tmux.py",
        '                return Unknown(f"tmux did not answer within {self._timeout:g} s ({socket})")\n',
        "                return Known(ServerView(socket))\n",
        ("tests/tmux/test_take_over.py::test_a_server_that_does_not_answer_is_not_an_empty_one",),
        "A server that is busy or stopped would lose all its records.",
    ),
    Mutant(
        "a listing of another shape is believed",
        "loopctl/adapters/tmux_format.py",
        '            return Unknown("tmux printed a line that cannot be read")\n',
        "            continue\n",
        ("tests/tmux/test_surroundings.py::test_a_server_whose_listing_is_not_ours_is_not_believed",),
        "A pane whose line cannot be read would count as gone.",
    ),
    Mutant(
        "ids of a former server are believed",
        "loopctl/observe/sight.py",
        _FORMER_SERVER,
        "    if view.server is None:\n        return _nothing_there(record, view, table)\n    bound = bool(record.pane_id)\n",
        ("tests/unit/test_sight.py",),
        "Ids begin again with each server: pane %3 would be a stranger's.",
    ),
    Mutant(
        "server identity not compared by tmux",
        "loopctl/adapters/tmux_format.py",
        '    same = f"#{{==:#{{pid}}/#{{start_time}},{server.pid}/{server.start}}}"\n',
        '    same = "1"\n',
        ("tests/contract/test_terminals.py::test_ids_of_a_former_server_are_nobodys",),
        "A server that was started anew between look and act would get commands meant for another.",
    ),
    Mutant(
        "the mark of a pane not compared",
        "loopctl/observe/sight.py",
        "    if pane.mark != record.id:\n",
        "    if False:\n",
        ("tests/unit/test_sight.py",),
        "A pane that is somebody else's by its mark would be taken for the record's.",
    ),
    Mutant(
        "the mark of a session not compared by tmux",
        "loopctl/adapters/tmux_format.py",
        '    return on_session(pane_id, session_id, [f"#{{==:#{{@loopctl_id}},{mark}}}"], body, dead=dead)\n',
        "    return on_session(pane_id, session_id, [], body, dead=dead)\n",
        ("tests/contract/test_terminals.py::test_a_wrong_identity_changes_nothing",),
        "What is done to a pane would be done to whoever has its id.",
    ),
    Mutant(
        "prefix match of tmux names",
        "loopctl/executor/seen.py",
        "    panes = [pane for pane in seen.panes if name in {pane.session, pane.session_id}]\n",
        "    panes = [pane for pane in seen.panes if pane.session.startswith(name) or name == pane.session_id]\n",
        ("tests/tmux/test_take_over.py::test_a_name_is_not_a_pattern",),
        "`loop-1` would be `loop-15` as soon as it is gone.",
    ),
    Mutant(
        "pid without start time in a look",
        "loopctl/model/processes.py",
        "        return row is not None and row.id == process\n",
        "        return row is not None\n",
        ("tests/unit/test_processes_model.py",),
        "A pid that was given again would make a stranger a member of the session.",
    ),
    Mutant(
        "pid without start time in a signal",
        "loopctl/adapters/processes.py",
        "        return row is not None and row.id == target and not row.ended\n",
        "        return row is not None and not row.ended\n",
        ("tests/contract/test_processes.py::test_another_start_time_is_another_process",),
        "A pid that was given again between look and signal would cost a stranger its life.",
    ),
    Mutant(
        "another item under the same number is believed",
        "loopctl/observe/sources.py",
        '    if record.node_id and item.node_id not in {"", record.node_id}:\n',
        "    if False:\n",
        ("tests/unit/test_linked_items.py",),
        "A repository made anew under an old name would end the sessions of the old one.",
    ),
    Mutant(
        "a mark that loopctl does not give makes a record",
        "loopctl/executor/rebuild.py",
        "        ours = str(uuid.UUID(mark)) == mark\n    except ValueError:\n        ours = False\n",
        "        ours = True\n    except ValueError:\n        ours = False\n",
        ("tests/unit/test_lifecycle.py",),
        "A session that somebody else marked would be taken for ours, and ended one day.",
    ),
    Mutant(
        "what is alive of a lost agent is nothing",
        "loopctl/model/observed.py",
        " or bool(self.session and self.session.tree.members)",
        "",
        ("tests/unit/test_limits.py",),
        "One leftover would be more than all that runs, and be refused for ever.",
    ),
    Mutant(
        "a redirect is no answer",
        "loopctl/adapters/github_lookup.py",
        "    if http.status in _ELSEWHERE:\n",
        "    if False:\n",
        ("tests/unit/test_github_answer.py",),
        "An item that moved would be unknown for ever.",
    ),
    Mutant(
        "a rate limit of odd numbers is believed",
        "loopctl/adapters/github_reply.py",
        "(n if isinstance(n, int) and n >= 0 else None for n in numbers)",
        "(n for n in numbers)",
        ("tests/unit/test_github_answer.py",),
        "What a server says in jest would stop the asking, or be a traceback.",
    ),
    Mutant(
        "the words of a pane count on the next server too",
        "loopctl/observe/sight.py",
        "        here=sighting.server is not None and sighting.server == record.server,\n",
        "        here=True,\n",
        ("tests/unit/test_sight.py",),
        "Where numbers are given anew, a person's program would be ended for an agent of long ago.",
    ),
    Mutant(
        "the clock alone tells which server it is",
        "loopctl/observe/sight.py",
        "    later = row.id.began_after(pane) if pane else None\n",
        "    later = None\n",
        ("tests/unit/test_sight.py",),
        "After the clock was set, a hidden server would read as gone, and a second agent would be started.",
    ),
    Mutant(
        "a title that was edited is no news",
        "loopctl/planner/resolve.py",
        "    reads = frozenset(name for one in asked if",
        "    reads = frozenset(name for one in () if",
        ("tests/unit/test_guard.py",),
        "A saved plan would end a session that its rule does not match any more.",
    ),
    Mutant(
        "a pull request that was opened since is no news",
        "loopctl/executor/guard.py",
        "    if action.verb in ENDINGS and then.item_state and (kept := stays(subject, policy)):\n        return kept.note\n",
        "",
        ("tests/unit/test_guard.py",),
        "A saved plan would end the session of an issue whose pull request is open again.",
    ),
)

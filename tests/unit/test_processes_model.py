"""Which processes are a session's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loopctl.model.processes import ProcessId, ProcessInfo, ProcessTable, pane_key
from loopctl.model.trees import Tree, TreeRoot, is_spared, tree_of

MARK = "abc-1"
SERVER = 50
PANE = 100
TMUX = ("/run/tmux,50,0", "%3")
#: Another session's.
THEIRS = ("/run/tmux,50,0", "%8")


def process(
    pid: int, ppid: int, *, sid: int = PANE, pgid: int = 0, fg: int = PANE, name: str = "sh", **more: object
) -> ProcessInfo:
    return ProcessInfo(ProcessId(pid, f"s{pid}"), ppid, pgid or pid, sid, fg, 1000, name, (name,), **more)  # type: ignore[arg-type]


AGENT = process(PANE, SERVER, mark=MARK, pane=TMUX, name="claude")
BASE = (process(1, 0, sid=1, name="init"), process(SERVER, 1, sid=SERVER, name="tmux: server", mark=MARK), AGENT)


def tree(
    *rows: ProcessInfo, own: tuple[int, ...] = (), spare: tuple[str, ...] = (), live: bool = True, here: bool = True
) -> Tree:
    others, panes = frozenset({MARK, "abc-2"}), frozenset({pane_key(*TMUX), pane_key(*THEIRS)})
    root = TreeRoot(
        MARK,
        AGENT.id if live else None,
        pane_key(*TMUX),
        SERVER,
        leader=AGENT.id,
        others=others,
        panes=panes,
        here=here,
    )
    table = ProcessTable.of((*BASE, *rows) if live else (*BASE[:2], *rows), own)
    return tree_of(table, root, spare)


def pids(rows: tuple[ProcessInfo, ...]) -> list[int]:
    return [row.id.pid for row in rows]


def test_the_agent_and_its_group_are_the_harness_and_its_other_children_the_rest() -> None:
    found = tree(process(101, PANE, pgid=PANE), process(102, PANE))
    assert (pids(found.harness), pids(found.rest)) == ([PANE, 101], [102])


def test_the_foreground_group_belongs_to_the_harness() -> None:
    agent = process(PANE, SERVER, fg=105)
    table = ProcessTable.of((*BASE[:2], agent, process(105, PANE, fg=105)))
    assert pids(tree_of(table, TreeRoot("", agent.id), ()).harness) == [PANE, 105]


def test_neither_init_nor_the_tmux_server_is_ever_a_member() -> None:
    assert pids(tree(process(60, SERVER, sid=60)).members) == [PANE]


def test_nohup_setsid_and_forked_twice_are_found_without_a_parent() -> None:
    found = tree(
        process(110, 1),  # the pane's session
        process(111, 1, sid=111, mark=MARK),  # the mark
        process(112, 1, sid=112, pane=("/run/other/../tmux,50,7", "%3")),  # taken over: only the pane's own variables
        process(113, 112, sid=113),  # and its child
    )
    assert pids(found.rest) == [110, 111, 112, 113]


def test_a_dead_pane_leaves_what_carries_its_marks() -> None:
    found = tree(process(111, 1, sid=111, mark=MARK), process(112, 1, sid=112, pane=TMUX), process(110, 1), live=False)
    assert (pids(found.harness), pids(found.rest)) == ([], [111, 112])


def test_another_pane_server_or_mark_is_somebody_elses() -> None:
    found = tree(
        process(120, 1, sid=120, pane=("/run/tmux,50,0", "%4")),
        process(121, 1, sid=121, pane=("/run/tmux,51,0", "%3")),
        process(122, 1, sid=122, pane=TMUX, mark="abc-2"),
        process(123, PANE, sid=123, mark="abc-2"),  # started from here, and another session all the same
        process(124, 123, sid=124),
    )
    assert pids(found.members) == [PANE]


def test_what_says_both_is_spared_and_named_unless_the_kernel_knows_better() -> None:
    found = tree(
        process(122, 1, sid=122, pane=TMUX, mark="abc-2"),
        process(125, 1, sid=125, pane=THEIRS, mark=MARK),
        process(126, 125, sid=126, pane=THEIRS, mark=MARK),  # stands below a named one
        process(127, PANE, pane=THEIRS, mark="abc-2"),  # never left the pane's session, whatever it calls itself
    )
    assert (pids(found.members), pids(found.spared)) == ([PANE, 127], [122, 125])


def test_the_next_server_with_the_same_number_has_other_panes() -> None:
    stranger, marked = process(200, SERVER, sid=200, pane=TMUX), process(201, 1, sid=201, pane=TMUX, mark=MARK)
    assert pids(tree(stranger, marked, live=False).members) == [200, 201]
    assert pids(tree(stranger, marked, live=False, here=False).members) == [201]


def test_what_is_older_than_the_server_was_in_a_pane_of_another_one() -> None:
    def row(pid: int, ppid: int, start: str, name: str = "sh") -> ProcessInfo:
        return replace(process(pid, ppid, sid=pid, name=name, pane=TMUX), id=ProcessId(pid, start))

    table = ProcessTable.of((row(SERVER, 1, "boot:20", "tmux: server"), row(60, 1, "boot:10"), row(61, 1, "boot:30")))
    assert pids(tree_of(table, TreeRoot(MARK, None, pane_key(*TMUX), SERVER), ()).members) == [61]


def test_a_process_session_whose_number_is_anothers_by_now_protects_nobody() -> None:
    """A server of others that the agent started has left the pane's session, also where its own has that number."""
    server = replace(process(PANE, 1, sid=PANE, name="tmux: server", mark=MARK), id=ProcessId(PANE, "later"))
    assert pids(tree(server, live=False, spare=("tmux*",)).members) == []


def test_a_service_that_was_handed_the_environment_is_spared_and_named() -> None:
    """`systemctl --user import-environment`, once run by an agent, marks all that the manager starts from then on."""
    served = process(130, 1, sid=130, mark=MARK, pane=TMUX, service="notes.service")
    assert pids(tree(served).spared) == [130]
    assert pids(tree(served, process(131, PANE, sid=131, service="notes.service")).members) == [PANE, 131]
    # All of a session runs in the service that its tmux server was started by.
    table = ProcessTable.of((BASE[0], replace(BASE[1], service="notes.service"), AGENT, served))
    assert pids(tree_of(table, TreeRoot(MARK, AGENT.id, pane_key(*TMUX), SERVER), ()).members) == [PANE, 130]


@pytest.mark.parametrize(
    ("one", "other", "later"),
    [
        ("boot:5", "boot:4", True),
        ("boot:4", "boot:5", False),
        ("boot:4", "boot:4", False),
        ("boot:4", "last:5", True),
        ("1700000000.5", "1700000000.25", True),
        ("boot:4", "5", None),
        ("boot:x", "boot:4", None),
    ],
)
def test_which_of_two_processes_began_later(one: str, other: str, later: bool | None) -> None:
    assert ProcessId(1, one).began_after(ProcessId(2, other)) is later


def test_a_process_with_the_agents_number_and_another_start_is_not_the_agent() -> None:
    stranger = ProcessInfo(ProcessId(PANE, "later"), 1, PANE, PANE, PANE, 1000, "vim")
    table = ProcessTable.of((*BASE[:2], stranger, process(101, PANE)))
    assert tree_of(table, TreeRoot(MARK, AGENT.id, pane_key(*TMUX), SERVER), ()).members == ()


def test_a_spared_server_is_spared_with_all_below_it_even_where_it_carries_our_mark() -> None:
    inner = process(130, PANE, sid=130, name="tmux: server", mark=MARK, pane=TMUX)
    below = process(131, 130, sid=131, mark=MARK, pane=("/run/inner,130,0", "%0"), name="vim")
    found = tree(inner, below, spare=("tmux:*",))
    assert (pids(found.members), pids(found.spared)) == ([PANE], [130])


def test_what_did_not_leave_the_panes_session_is_not_spared() -> None:
    assert pids(tree(process(132, PANE, name="ssh-agent"), spare=("ssh-agent",)).rest) == [132]


def test_it_is_not_spared_once_the_pane_is_dead_either() -> None:
    podman = process(133, 1, name="podman", mark=MARK)
    assert pids(tree(podman, spare=("podman",), live=False).rest) == [133]


def test_a_mark_that_is_no_sessions_id_makes_nobody_elses() -> None:
    found = tree(process(134, PANE, mark="x"), process(135, 1, sid=135, pane=TMUX, mark="x"))
    assert pids(found.rest) == [134, 135]


def test_what_has_only_the_mark_and_runs_below_another_tmux_server_is_spared_and_named() -> None:
    elsewhere = ("/run/user,70,0", "%0")
    found = tree(
        process(70, 1, sid=70, name="tmux: server", mark=MARK),  # an agent started it with TMUX unset
        process(71, 70, sid=71, mark=MARK, pane=elsewhere),
        process(72, 1, sid=72, mark=MARK, pane=elsewhere),  # left its pane there
        process(73, 72, sid=72, mark=MARK, pane=elsewhere),
        process(74, 73, sid=72, mark=MARK),  # with TMUX unset
    )
    assert (pids(found.members), pids(found.spared)) == ([PANE], [70, 72])


def test_what_runs_below_another_tmux_server_by_its_own_word_only_is_a_member() -> None:
    elsewhere = ("/run/user,70,0", "%0")
    assert pids(tree(process(75, PANE, sid=75, mark=MARK, pane=elsewhere)).rest) == [75]


@pytest.mark.parametrize(("server", "members"), [(SERVER, []), (70, [76]), (0, [76])])
def test_without_a_pane_on_record_the_server_that_was_seen_is_its_own(server: int, members: list[int]) -> None:
    table = ProcessTable.of((process(76, 1, sid=76, mark=MARK, pane=("/run/user,70,0", "%0")),))
    found = tree_of(table, TreeRoot(MARK, server=server), ())
    assert pids(found.members) == members
    assert len(found.members + found.spared) == 1


@pytest.mark.parametrize(
    "name", ["tmux", "tmux: server", "screen", "SCREEN", "zellij", "sshd", "sshd-session", "systemd"]
)
def test_some_are_spared_whatever_the_config_says(name: str) -> None:
    server = process(136, PANE, sid=136, name=name)
    assert pids(tree(server).spared) == [136]


@pytest.mark.parametrize(
    ("argv", "spared"),
    [
        (("node", "/usr/bin/pasta"), True),
        (("/usr/bin/python3.11", "/usr/bin/pasta"), True),
        (("vim", "pasta"), False),
        (("less", "screen"), False),
        (("cat", "/repo/tmux"), False),
    ],
)
def test_only_an_interpreters_second_word_is_a_program(argv: tuple[str, ...], spared: bool) -> None:
    one = replace(process(137, 1, name=argv[0].rpartition("/")[2]), argv=argv)
    assert is_spared(one, ("pasta",)) == spared


def test_a_title_is_its_own_argument() -> None:
    master = replace(process(138, 1, name="ssh"), argv=("ssh: /home/u/.ssh/cm-host [mux]",))
    client = replace(process(139, 1, name="ssh"), argv=("ssh", "host"))
    assert is_spared(master, ("ssh *[[]mux[]]",))
    assert not is_spared(client, ("ssh *[[]mux[]]",))


def test_our_own_process_in_it_is_told() -> None:
    assert tree(process(140, PANE), own=(140, PANE)).includes_self
    assert not tree(process(140, PANE), own=(999,)).includes_self


def test_zombies_have_ended() -> None:
    assert pids(tree(process(150, PANE, ended=True)).members) == [PANE]


def test_those_found_before_stay_members_while_they_live() -> None:
    orphan = process(160, 1, sid=160)
    table = ProcessTable.of((*BASE, orphan))
    known = frozenset({orphan.id, ProcessId(161, "gone")})
    assert pids(tree_of(table, TreeRoot(MARK, AGENT.id, server=SERVER, known=known), ()).rest) == [160]

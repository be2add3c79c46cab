"""Mistakes in what agents are told and in what is said on items."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_UNIT = ("tests/unit/test_deliveries.py",)

TALKING = (
    Mutant(
        "paused delivered to",
        "loopctl/planner/deliveries.py",
        "not subject.latest or subject.phase != RUNNING:\n",
        "not subject.latest:\n",
        _UNIT,
        "A session that was to rest would be set to work.",
    ),
    Mutant(
        "delivery before claim",
        "loopctl/executor/deliver.py",
        "            if not world.ledger.claim(view.record.id, message.id):\n"
        "                continue\n"
        "            if problem := _send(action, view, message, world):\n",
        "            problem = _send(action, view, message, world)\n"
        "            world.ledger.claim(view.record.id, message.id)\n"
        "            if problem:\n",
        _UNIT,
        "After a crash the agent would be told the same again.",
    ),
    Mutant(
        "what may have arrived is sent again",
        "loopctl/planner/deliveries.py",
        "    return line is None or line.status not in {DELIVERED, SENDING}\n",
        "    return line is None or line.status != DELIVERED\n",
        _UNIT,
        "A plan would promise what must not happen, over and over.",
    ),
    Mutant(
        "our own comment is delivered back",
        "loopctl/planner/deliveries.py",
        "    return not comment.ours and comment.author.lower()",
        "    return comment.author.lower()",
        _UNIT,
        "loopctl's comment would be an agent's next task, for ever.",
    ),
    Mutant(
        "our own comment is not known as ours",
        "loopctl/adapters/github_threads.py",
        '        ours=OUR_MARK in body and node.get("viewerDidAuthor") is True,\n',
        "        ours=False,\n",
        ("tests/gh/test_threads.py",),
        "loopctl's comment would be an agent's next task, for ever.",
    ),
    Mutant(
        "whoever writes our mark is us",
        "loopctl/adapters/github_threads.py",
        '        ours=OUR_MARK in body and node.get("viewerDidAuthor") is True,\n',
        "        ours=OUR_MARK in body,\n",
        ("tests/gh/test_threads.py",),
        "A comment with our mark in it could hide from the agent what it is to know.",
    ),
    Mutant(
        "a stranger is listened to",
        "loopctl/planner/deliveries.py",
        "and comment.author.lower() in policy.authorized_users and",
        "and",
        _UNIT,
        "Anybody on the internet could tell an agent what to do.",
    ),
    Mutant(
        "cursor ignored",
        "loopctl/planner/deliveries.py",
        "if c.published_at > cursor and _is_meant(c, policy)",
        "if _is_meant(c, policy)",
        _UNIT,
        "A new agent would be told the whole history of its item again.",
    ),
    Mutant(
        "a pane that takes no input is pasted into",
        "loopctl/adapters/tmux_paste.py",
        '    takes = "#{?pane_dead,,#{?pane_input_off,,1}}"\n',
        '    takes = "#{?pane_dead,,1}"\n',
        ("tests/contract/test_terminals.py::test_a_text_goes_to_a_live_pane_that_takes_input_and_to_no_other",),
        "A session that is being closed would be given more to do.",
    ),
    Mutant(
        "control characters are pasted as they are",
        "loopctl/adapters/tmux_paste.py",
        '.replace("\\r", "\\n").translate(_PICTURES)\n',
        '.replace("\\r", "\\n")\n',
        ("tests/tmux/test_paste.py::test_control_characters_arrive_as_pictures_and_end_nothing",),
        "A comment could press keys in the agent's terminal.",
    ),
    Mutant(
        "comment posted twice",
        "loopctl/adapters/github_say.py",
        '            return text_at(item, "id"), ours[0] if ours else None\n',
        '            return text_at(item, "id"), None\n',
        ("tests/gh/test_comments.py",),
        "Every crash after a comment would make another one.",
    ),
    Mutant(
        "a mutation is sent again in doubt",
        "loopctl/adapters/github_say.py",
        "    answer = api.graphql(mutation, tally, once=True)\n",
        "    answer = api.graphql(mutation, tally)\n",
        ("tests/gh/test_comments.py",),
        "A time-out of GitHub would make two comments.",
    ),
    Mutant(
        "a comment tells of what was not done",
        "loopctl/executor/comment.py",
        "    if own and own.status not in {CHANGED, OK}:\n",
        "    if False:\n",
        ("tests/unit/test_comments.py",),
        "The item would say that its agent has ended while it works.",
    ),
    Mutant(
        "a message is claimed twice",
        "loopctl/adapters/registry_ledger.py",
        "attempts = attempts + 1, detail = '', at = excluded.at WHERE status = ?\",\n",
        "attempts = attempts + 1, detail = '', at = excluded.at WHERE status = ? OR 1\",\n",
        ("tests/contract/test_ledger.py",),
        "Two at once would tell an agent the same.",
    ),
    Mutant(
        "a cursor goes back",
        "loopctl/adapters/registry_ledger.py",
        "SET cursor = max(cursor, excluded.cursor)",
        "SET cursor = excluded.cursor",
        ("tests/contract/test_ledger.py",),
        "What an agent was spared would be told to it after all.",
    ),
    Mutant(
        "a shell is told what its agent was to be told",
        "loopctl/planner/deliveries.py",
        "    if view.record.origin != STARTED and is_shell(pane.command):\n",
        "    if False:\n",
        ("tests/unit/test_deliveries.py",),
        "A comment would be run as a command by the shell of a person whose agent has ended.",
    ),
    Mutant(
        "a shell is pasted into",
        "loopctl/adapters/tmux_paste.py",
        "    if pane.no_shell:\n",
        "    if False:\n",
        ("tests/tmux/test_paste.py",),
        "A comment would be run as a command by the shell of a person whose agent ended just now.",
    ),
)

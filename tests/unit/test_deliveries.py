"""Comments that are passed on to running agents: which, when, once, in their order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import pytest

from loopctl.model.facts import REFUSED, Unknown
from loopctl.model.fields import FIELDS
from loopctl.model.items import OPEN
from loopctl.model.plan import CHANGED, DELIVER, FAILED, START, Action, Held, Plan
from loopctl.model.refs import WorkItemRef
from loopctl.model.rules import RUN, Ensure, ItemMatch, Limits, Match, Play, Playbook, Policy, Position, Rule
from loopctl.model.sessions import EXITED, IMPORTED, PAUSED, REGISTERED, RETAINED, STARTED
from loopctl.model.talk import COMMENTS, DELIVERED, FAILED_DELIVERY, REVIEW, SENDING, Comment, Message
from loopctl.observe import observe
from loopctl.planner import Desired, tell
from loopctl.testing import Crash, FakeWorld, SimRecord

BEGINNING = FakeWorld().now()
ITEM = WorkItemRef.parse("items:demo/app#1")
POLICY = Policy(spawn_workdir="/srv/work", authorized_users=frozenset({"alice", "bob"}), max_retries=2)


def rules(deliver: str | None = COMMENTS, match: ItemMatch | None = None) -> Playbook:
    rule = Rule(
        "the rule",
        Position("p.yml", 9),
        Match(match if match is not None else ItemMatch(state=(OPEN,))),
        Ensure(session=RUN, deliver=deliver),
    )
    play = Play("the play", Position("p.yml", 1), ("all",), (rule,), Limits(2, 1.0))
    return Playbook((play,), (("p.yml", "0" * 64),))


def say(world: FakeWorld, id_: str, minute: float, author: str = "alice", body: str = "", **fields: object) -> None:
    """A comment so many minutes after the beginning."""
    at = BEGINNING + timedelta(minutes=minute)
    thread = world.provider.comments.setdefault(ITEM, [])
    thread.append(Comment(id_, author, body or f"text of {id_}", at, f"https://example.invalid/{id_}", **fields))  # type: ignore[arg-type]
    item = world.provider.items[ITEM]
    world.provider.items[ITEM] = replace(item, updated_at=max(at, item.updated_at or at))


@pytest.fixture
def world() -> FakeWorld:
    world = FakeWorld(policy=POLICY)
    world.item("demo/app#1", labels=("loop",))
    return world


@pytest.fixture
def agent(world: FakeWorld) -> SimRecord:
    """A running session whose agent is told of what is said from the tenth minute on."""
    agent = world.session("demo/app#1")
    say(world, "old", 5)
    world.ledger.cursors[agent.id] = BEGINNING + timedelta(minutes=10)
    return agent


def heard(agent: SimRecord) -> list[str]:
    """The ids of the comments that it has read."""
    assert agent.pane
    return [text.split("text of ")[1].split("\n")[0] for text in agent.pane.heard]


def told(plan: Plan) -> list[str]:
    return [message.id for action in plan.actions if action.verb == DELIVER for message in action.after.messages]


def test_new_comments_of_those_who_may_are_passed_on_once_and_in_their_order(
    world: FakeWorld, agent: SimRecord
) -> None:
    say(world, "c", 13, "Bob", kind=REVIEW)
    say(world, "a", 12)
    say(world, "b", 12)
    say(world, "stranger", 12, "mallory")
    say(world, "ours", 12, ours=True)
    say(world, "empty", 12, body=" \n")
    say(world, "at the cursor", 10)
    plan = world.plan(rules())
    (action,) = plan.actions
    assert (action.verb, told(plan)) == (DELIVER, ["a", "b", "c"])
    assert action.why == "3 new comments by alice, Bob"
    assert [result.status for result in world.apply(plan).results] == [CHANGED]
    assert heard(agent) == ["a", "b", "c"]
    assert world.plan(rules()).actions == ()
    assert [event["message"] for event in world.journal.of("delivery.sent")] == ["a", "b", "c"]
    say(world, "d", 11, "bob")
    world.apply(world.plan(rules()))
    assert heard(agent) == ["a", "b", "c", "d"]


def test_what_was_said_before_the_first_sight_is_not_replayed(world: FakeWorld) -> None:
    agent = world.session("demo/app#1")
    say(world, "old", 5)
    say(world, "older", 4)
    plan = world.plan(rules())
    (action,) = plan.actions
    assert (action.verb, action.after.messages, action.after.cursor) == (DELIVER, (), BEGINNING + timedelta(minutes=5))
    world.apply(plan)
    assert world.plan(rules()).actions == ()
    say(world, "new", 6)
    world.apply(world.plan(rules()))
    assert heard(agent) == ["new"]


def test_a_start_knows_from_when_on_its_agent_is_told(world: FakeWorld) -> None:
    say(world, "old", 5)
    plan = world.plan(rules())
    assert [(action.verb, action.after.cursor) for action in plan.actions] == [
        (START, BEGINNING + timedelta(minutes=5))
    ]
    world.apply(plan)
    assert world.plan(rules()).actions == ()
    say(world, "new", 6)
    assert told(world.plan(rules())) == ["new"]


def test_an_agent_that_takes_anothers_place_goes_on_from_where_that_one_was(world: FakeWorld) -> None:
    agent = world.session("demo/app#1", EXITED)
    world.ledger.cursors[agent.id] = BEGINNING
    say(world, "told", 1)
    say(world, "missed", 5)
    world.ledger.claim(agent.id, "told")
    world.ledger.settle(agent.id, "told", DELIVERED)
    world.apply(world.plan(rules()))
    assert told(world.plan(rules())) == ["missed"]


@pytest.mark.parametrize(
    "case", ["no rule", "paused", "dead", "closed item", "nobody may", "item unknown", "thread unknown", "input off"]
)
def test_nothing_is_passed_on(world: FakeWorld, case: str) -> None:
    agent = world.session("demo/app#1", {"paused": PAUSED, "dead": EXITED}.get(case, "running"))
    world.ledger.cursors[agent.id] = BEGINNING
    say(world, "new", 5)
    if case == "closed item":
        world.provider.items[ITEM] = replace(world.provider.items[ITEM], state="closed")
    if case == "nobody may":
        world.policy = replace(POLICY, authorized_users=frozenset())
    if case == "item unknown":
        world.provider.silent[ITEM] = "Bad Gateway"
    if case == "thread unknown":
        world.faults.fail("provider", "threads", reason="Bad Gateway")
    if case == "input off":
        assert agent.pane
        agent.pane.input_off = True
    plan = world.plan(rules(None if case == "no rule" else COMMENTS))
    world.apply(plan)
    assert agent.pane
    assert agent.pane.heard == []
    reasons = " ".join(held.reason for held in plan.held)
    assert ("Bad Gateway" in reasons) == (case in {"item unknown", "thread unknown"})
    assert ("1 new comment not passed on: pane %0 takes no input" in reasons) == (case == "input off")
    assert ("authorizedUsers is empty" in " ".join(plan.notes)) == (case == "nobody may")


def test_of_an_item_that_no_rule_asks_about_the_identity_is_known_all_the_same(world: FakeWorld) -> None:
    world.item("demo/app#1", node_id="another", labels=("loop",))
    agent = world.session("demo/app#1", node_id="its own")
    world.ledger.cursors[agent.id] = BEGINNING
    say(world, "new", 5)
    plan = world.plan(rules(match=ItemMatch()))
    assert told(plan) == []
    assert "another item has this number" in plan.held[0].reason


def test_comments_on_the_pull_request_that_delivers_the_item_come_too(world: FakeWorld, agent: SimRecord) -> None:
    pull, elsewhere = WorkItemRef.parse("items:demo/app#2"), WorkItemRef.parse("items:other/app#9")
    world.provider.outside.add(elsewhere)
    world.provider.items[ITEM] = replace(world.provider.items[ITEM], open_links=(pull, elsewhere))
    say(world, "on the issue", 12)
    world.provider.comments[pull] = [
        Comment("review", "bob", "text of review", BEGINNING + timedelta(minutes=11), path="src/a.py")
    ]
    world.apply(world.plan(rules()))
    assert heard(agent) == ["review", "on the issue"]


def test_a_delivery_to_one_never_lands_in_another(world: FakeWorld, agent: SimRecord) -> None:
    world.item("demo/app#10", labels=("loop",))
    other = world.session("demo/app#10")
    world.ledger.cursors[other.id] = BEGINNING
    say(world, "a", 12)
    plan = world.plan(rules())
    # The other one's pane takes the place of the first one's.
    assert agent.pane and other.pane
    world.servers.drop(agent.pane)
    (result,) = world.apply(plan).results
    assert result.status != CHANGED
    assert (agent.pane.heard, other.pane.heard) == ([], [])


def test_a_message_that_failed_is_sent_again_and_the_later_ones_wait(world: FakeWorld, agent: SimRecord) -> None:
    say(world, "a", 12)
    say(world, "b", 13)
    plan = world.plan(rules())
    assert agent.pane
    # After the look of the apply, as a person would do it.
    deaf(world, agent)
    (result,) = world.apply(plan).results
    assert (result.status, "1 message not sent" in result.detail) == (FAILED, True)
    assert [(line.id, line.status) for line in world.ledger.deliveries.values()] == [("a", FAILED_DELIVERY)]
    world.apply(world.plan(rules()))
    assert heard(agent) == ["a", "b"]
    assert [line.attempts for line in world.ledger.deliveries.values()] == [2, 1]


def deaf(world: FakeWorld, agent: SimRecord, times: int = 1) -> None:
    """Let the next pastes be refused."""
    host, left = world.terminals.paste, [times]

    def paste(*args: object) -> object:
        if left[0]:
            left[0] -= 1
            return Unknown("pane takes no text", REFUSED)
        return host(*args)  # type: ignore[arg-type]

    world.terminals.paste = paste  # type: ignore[method-assign,assignment]


def test_what_fails_again_and_again_is_given_up_until_somebody_asks(world: FakeWorld, agent: SimRecord) -> None:
    say(world, "a", 12)
    say(world, "b", 13)
    deaf(world, agent, 4)
    for _ in range(POLICY.max_retries + 1):
        assert world.apply(world.plan(rules())).results[0].status == FAILED
    plan = world.plan(rules())
    assert plan.actions == ()
    assert plan.held[0].reason == (
        "given up: 2 comments could not be passed on (pane takes no text); "
        "`loopctl sessions retry items:demo/app#1` lets it be tried again"
    )
    world.machine.advance(1)
    world.ledger.arm(ITEM)
    world.machine.advance(1)
    assert world.apply(world.plan(rules())).results[0].status == FAILED
    assert world.plan(rules()).actions == ()
    world.machine.advance(1)
    world.ledger.arm(ITEM)
    world.apply(world.plan(rules()))
    assert heard(agent) == ["a", "b"]


def test_what_may_have_arrived_is_not_sent_again_and_said(world: FakeWorld, agent: SimRecord) -> None:
    say(world, "a", 12)
    say(world, "b", 13)
    # The answer is lost, not the text.
    world.faults.fail("terminals", "paste", reason="tmux did not answer in time")
    (result,) = world.apply(world.plan(rules())).results
    assert result.status == FAILED
    assert "cannot be told whether it arrived: tmux did not answer in time; 1 message not sent" in result.detail
    plan = world.plan(rules())
    assert told(plan) == ["b"]
    assert "whether 1 message arrived cannot be told" in plan.notes[0]
    world.apply(plan)
    assert heard(agent) == ["a", "b"]
    assert world.plan(rules()).actions == ()


@pytest.mark.parametrize("step", ["paste", "settle"])
def test_a_crash_between_the_two_writes_sends_nothing_twice(world: FakeWorld, agent: SimRecord, step: str) -> None:
    say(world, "a", 12)
    plan = world.plan(rules())

    def crash(*args: object, **kwargs: object) -> object:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world.terminals if step == "paste" else world.ledger, step, crash)
        with pytest.raises(KeyboardInterrupt):
            world.apply(plan)
    assert [line.status for line in world.ledger.deliveries.values()] == [SENDING]
    again = world.plan(rules())
    assert again.actions == ()
    assert "cannot be told" in again.notes[0]
    assert heard(agent) == ([] if step == "paste" else ["a"])


def three_to_two(world: FakeWorld) -> list[SimRecord]:
    """Two agents, each of which is to be told three things."""
    world.item("demo/app#10", labels=("loop",))
    agents = [world.session("demo/app#1"), world.session("demo/app#10")]
    for number, agent in enumerate(agents):
        world.ledger.cursors[agent.id] = BEGINNING
        for turn in range(3):
            ids = f"{number}{turn}"
            at = BEGINNING + timedelta(minutes=turn + 1)
            world.provider.comments.setdefault(agent.ref, []).append(Comment(ids, "bob", f"text of {ids}", at))
    return agents


def test_a_crash_at_any_step_loses_nothing_unsaid_and_sends_nothing_twice() -> None:
    """Each message arrives once, in order, and where it may not have, that is said."""
    call, whole = 0, False
    while not whole:
        call += 1
        world = FakeWorld(policy=POLICY)
        world.item("demo/app#1", labels=("loop",))
        agents = three_to_two(world)
        plan = world.plan(rules())
        world.faults.crash_at(call)
        try:
            world.apply(plan)
            whole = True
        except Crash:
            pass
        world.faults.clear()
        again = world.plan(rules())
        world.apply(again)
        assert world.plan(rules()).actions == ()
        unsure = sum(line.status == SENDING for line in world.ledger.deliveries.values())
        assert unsure == sum("cannot be told" in note for note in again.notes) <= 1
        for number, agent in enumerate(agents):
            got, wanted = heard(agent), [f"{number}{turn}" for turn in range(3)]
            assert got == [id_ for id_ in wanted if id_ in got], call
            assert len(wanted) - len(got) <= unsure
    assert call > 15


def test_the_same_plan_twice_says_nothing_twice(world: FakeWorld, agent: SimRecord) -> None:
    say(world, "a", 12)
    plan = world.plan(rules())
    world.apply(plan)
    world.apply(plan)
    assert heard(agent) == ["a"]


def test_an_interrupt_leaves_the_rest_for_the_next_run(world: FakeWorld, agent: SimRecord) -> None:
    for number in range(3):
        say(world, f"c{number}", 12 + number)
    plan = world.plan(rules())
    world.interrupt_after = len(world.machine.effects) + 2
    (result,) = world.apply(plan).results
    assert (result.status, result.detail) == (FAILED, "interrupted: 2 messages not sent")
    world.interrupt_after = None
    world.apply(world.plan(rules()))
    assert heard(agent) == ["c0", "c1", "c2"]


def test_a_ledger_that_cannot_be_written_sends_nothing(world: FakeWorld, agent: SimRecord) -> None:
    say(world, "a", 12)
    plan = world.plan(rules())
    world.faults.fail("ledger", "claim", kind="raise", reason="the disk is full")
    (result,) = world.apply(plan).results
    assert (result.status, heard(agent)) == (FAILED, [])


def test_to_tell_agents_something_counts_for_no_limit(world: FakeWorld) -> None:
    for number in range(1, 6):
        world.item(f"demo/app#{number}", labels=("loop",))
        world.session(f"demo/app#{number}")
    plan = world.plan(rules())
    assert len(plan.actions) == 5
    assert {result.status for result in world.apply(plan).results} == {CHANGED}


class Words:
    """A template as the config gives it."""

    names = frozenset({"item", "comment"})
    source = "words"

    def __call__(self, facts: Mapping[str, object]) -> object:
        comment = facts["comment"]
        assert isinstance(comment, dict)
        assert comment.keys() == FIELDS["comment"]
        return f"{comment['author']} {comment['kind']} {comment['path']} {comment['url']}\ntext of {comment['body']}"


def test_the_words_are_the_configs_and_hide_nothing(world: FakeWorld, agent: SimRecord) -> None:
    world.policy = replace(POLICY, templates={"delivery": Words()})
    say(world, "a", 12, body="hid\u200bden \x1b[31mred\u202e", path="src/a.py", kind=REVIEW)
    plan = world.plan(rules())
    (message,) = plan.actions[0].after.messages
    assert message.text == "alice review src/a.py https://example.invalid/a\ntext of hidden red"
    assert message.excerpt == "hidden red"


def test_without_words_of_the_config_no_text_ends_its_own_fence(world: FakeWorld, agent: SimRecord) -> None:
    say(world, "a", 12, body="one\ntwo")
    (message,) = world.plan(rules()).actions[0].after.messages
    fence = message.text.splitlines()[1]
    assert message.text.splitlines()[1:] == [fence, "one", "two", fence]


@pytest.mark.parametrize(
    ("phase", "why"),
    [
        (PAUSED, "its session is paused: `loopctl sessions resume items:demo/app#1` comes first"),
        (EXITED, "its session is exited: only a running agent can be told something"),
        (RETAINED, "its session is retained: only a running agent can be told something"),
    ],
)
def test_by_hand_only_a_running_agent_is_told_something(world: FakeWorld, phase: str, why: str) -> None:
    world.session("demo/app#1", phase)
    assert by_hand(world) == Held(ITEM, why)


def test_by_hand_nobody_is_told_how_to_open_a_pane_that_is_being_closed(world: FakeWorld, agent: SimRecord) -> None:
    assert agent.pane
    agent.pane.input_off, agent.pane.own_mark = True, agent.id
    assert by_hand(world) == Held(ITEM, "loopctl has turned the input of pane %0 off to close it")


@pytest.mark.parametrize("origin", [STARTED, REGISTERED, IMPORTED])
@pytest.mark.parametrize("shows", ["bash", "-zsh", "claude"])
def test_a_shell_in_a_session_that_was_taken_over_is_told_nothing(world: FakeWorld, shows: str, origin: str) -> None:
    agent = world.session("demo/app#1", origin=origin)
    assert agent.pane and agent.process
    world.ledger.cursors[agent.id] = BEGINNING
    say(world, "a", 12)
    plan = world.plan(rules())
    row = world.machine.processes[agent.process.pid]
    row.row = replace(row.row, name=shows)
    told_now = origin == STARTED or shows == "claude"
    held = "" if told_now else f"pane {agent.pane.pane_id} shows a shell ({shows})"
    assert (told(world.plan(rules())) == ["a"]) == told_now
    assert held in " ".join(one.reason for one in world.plan(rules()).held)
    # Also where it ended after the plan was made.
    world.apply(plan)
    assert (heard(agent) == ["a"]) == told_now


def test_by_hand_a_pane_that_takes_no_input_or_is_not_seen_is_told_nothing(world: FakeWorld, agent: SimRecord) -> None:
    assert agent.pane
    agent.pane.input_off = True
    step = by_hand(world)
    assert isinstance(step, Held)
    assert "takes no input" in step.reason
    world.servers.ensure(world.socket).hangs = True
    step = by_hand(world)
    assert isinstance(step, Held)
    assert "did not answer" in step.reason


def test_what_was_sent_by_hand_is_said_as_it_is(world: FakeWorld, agent: SimRecord) -> None:
    step = by_hand(world)
    assert isinstance(step, Action)
    plan = replace(world.plan(rules()), actions=(step,))
    assert world.apply(plan).results[0].status == CHANGED
    assert agent.pane
    assert agent.pane.heard == ["{{ as }} it is"]


def by_hand(world: FakeWorld) -> Action | Held:
    observation = observe(world.world)
    play = rules().plays[0]
    desired = Desired(play.rules[0].ensure, play.rules[0], play)
    return tell(observation.subjects[0], Message("sent:1", "", "{{ as }} it is", "as it is"), desired, observation)

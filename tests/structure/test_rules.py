"""Each rule holds for the source as it is, and catches what it is there to catch."""

from __future__ import annotations

import pytest

from tests.structure import rules, source


@pytest.mark.parametrize("rule", rules.PACKAGE_RULES, ids=lambda rule: rule.__name__)
def test_the_package_keeps_the_rule(rule: rules.Rule) -> None:
    assert [broken for module in source.package() for broken in rule(module)] == []


def test_no_test_sleeps() -> None:
    assert [broken for module in source.tests() for broken in rules.no_test_sleeps(module)] == []


def test_the_closers_do_end_sessions() -> None:
    """The rule would hold for nothing if endings went by another name."""
    used = {(r, a) for module in source.package() if rules.is_closer(module) for _, r, a in module.attributes()}
    assert {("processes", "signal"), ("terminals", "remove")} <= used


def test_every_exception_is_still_used() -> None:
    modules = {module.name: module for module in source.package()}
    for name in rules.ADAPTER_USERS:
        assert any(imported.startswith("loopctl.adapters") for _, imported in modules[name].imports()), name
    for name in rules.TMUX_ENDERS:
        assert any(word.startswith(("kill-", "respawn-")) for _, word in modules[name].words()), name


BROKEN = [
    (rules.model_and_planner_are_pure, "loopctl.model.x", "import os"),
    (rules.model_and_planner_are_pure, "loopctl.planner", "def f():\n    from pathlib import Path"),
    (rules.model_and_planner_are_pure, "loopctl.planner.x", "import os.path as p"),
    (rules.only_shell_runs_programs, "loopctl.adapters.tmux", "import subprocess"),
    (rules.only_shell_runs_programs, "loopctl.cli.demo", "def f():\n    import sh"),
    (rules.only_shell_runs_programs, "loopctl.run", "import os\nos.system('x')"),
    (rules.only_shell_runs_programs, "loopctl.run", "from os import popen"),
    (rules.only_shell_runs_programs, "loopctl.run", "import importlib\nimportlib.import_module('sh')"),
    (rules.only_close_ends_sessions, "loopctl.executor.apply", "world.processes.signal(x, 15)"),
    (rules.only_close_ends_sessions, "loopctl.cli.sessions", "end = processes.signal"),
    (rules.only_close_ends_sessions, "loopctl.executor.start", "host = world.terminals\nhost.remove(s, v, p)"),
    (rules.only_close_ends_sessions, "loopctl.run", "pane.kill()"),
    (rules.only_processes_sends_signals, "loopctl.executor.close", "import os\nos.kill(pid, 9)"),
    (rules.only_processes_sends_signals, "loopctl.adapters.tmux", "from os import killpg as k"),
    (rules.only_processes_sends_signals, "loopctl.cli.demo", "signal.pidfd_send_signal(fd, 9)"),
    (rules.only_tmux_names_its_enders, "loopctl.executor.close", "tmux('kill-session', '-t', x)"),
    (rules.only_tmux_names_its_enders, "loopctl.executor.close", "f'kill-pane -t {x}'"),
    (rules.only_tmux_names_its_enders, "loopctl.adapters.tmux", "run('pkill', 'claude')"),
    (rules.only_wiring_builds_adapters, "loopctl.run", "from loopctl.adapters.tmux import Tmux"),
    (rules.only_wiring_builds_adapters, "loopctl.cli.main", "from loopctl import adapters"),
    (rules.only_wiring_builds_adapters, "loopctl.cli.main", "from ..adapters import tmux"),
    (rules.adapters_do_not_know_each_other, "loopctl.adapters.tmux", "from loopctl.adapters.github import GitHub"),
    (rules.adapters_do_not_know_each_other, "loopctl.adapters.tmux_x", "import loopctl.adapters.items_file"),
    (rules.adapters_do_not_know_each_other, "loopctl.adapters.journal", "from loopctl.adapters import registry"),
    (rules.no_test_sleeps, "tests.unit.test_x", "import time\ntime.sleep(1)"),
    (rules.no_test_sleeps, "tests.unit.test_x", "def f():\n    from time import sleep"),
]


@pytest.mark.parametrize(("rule", "name", "text"), BROKEN)
def test_the_rule_catches(rule: rules.Rule, name: str, text: str) -> None:
    assert list(rule(source.parse(name, text)))


ALLOWED = [
    (rules.only_shell_runs_programs, "loopctl.adapters.shell", "import sh, subprocess"),
    (rules.only_close_ends_sessions, "loopctl.executor.close", "world.processes.signal(x, 15)"),
    (rules.only_close_ends_sessions, "loopctl.executor.start", "world.registry.remove(record)"),
    (rules.only_close_ends_sessions, "loopctl.cli.main", "import signal\nsignal.signal(signal.SIGTERM, f)"),
    (rules.only_processes_sends_signals, "loopctl.adapters.processes", "import os\nos.kill(pid, 9)"),
    (rules.only_wiring_builds_adapters, "loopctl.cli.wiring", "from loopctl.adapters.tmux import Tmux"),
    (rules.adapters_do_not_know_each_other, "loopctl.adapters.tmux", "from loopctl.adapters.tmux_format import x"),
    (rules.adapters_do_not_know_each_other, "loopctl.adapters.github", "from loopctl.adapters import shell"),
    (rules.only_tmux_names_its_enders, "loopctl.cli.demo", "def f():\n    'Not kill-server: a docstring.'"),
]


@pytest.mark.parametrize(("rule", "name", "text"), ALLOWED)
def test_the_rule_lets_pass(rule: rules.Rule, name: str, text: str) -> None:
    assert list(rule(source.parse(name, text))) == []

from __future__ import annotations

import signal
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopctl.adapters.harnesses import BUILT_IN, CommandHarness, build_harnesses
from loopctl.errors import StateError
from loopctl.model.plain import plain
from loopctl.render.clean import clean


@dataclass(frozen=True)
class Settings:
    argv: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    pass_env: tuple[str, ...] = ()
    resume_argv: tuple[str, ...] = ()
    version_argv: tuple[str, ...] = ()
    stop_signal: str = "TERM"
    grace_seconds: float | None = None


def script(program: Path, text: str = "") -> Path:
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A PATH on which every built-in program and `agent` exist."""
    for name in (*BUILT_IN, "agent"):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        script(program)
    return {"PATH": str(tmp_path / "bin"), "API_KEY": "k", "HOME": "/h"}


def argv_of(template: tuple[str, ...], environ: Mapping[str, str], prompt: str, session: str = "s-1") -> list[str]:
    return list(CommandHarness("x", ("agent", *template), environ=environ).argv(prompt, session)[1:])


@pytest.mark.parametrize(
    ("name", "prompt", "wanted"),
    [
        ("claude", "do it", ["--session-id", "s-1", "--", "do it"]),
        ("claude", "- [ ] fix", ["--session-id", "s-1", "--", "- [ ] fix"]),
        ("claude", "--dangerously-skip-permissions", ["--session-id", "s-1", "--", "--dangerously-skip-permissions"]),
        ("claude", "", ["--session-id", "s-1"]),
        ("codex", "do it", ["--", "do it"]),
        ("codex", "-c x=y", ["--", "-c x=y"]),
        ("codex", "", []),
        ("gemini", "do it", ["--session-id", "s-1", "--prompt-interactive=do it"]),
        ("gemini", "--yolo", ["--session-id", "s-1", "--prompt-interactive=--yolo"]),
        ("gemini", "", ["--session-id", "s-1"]),
    ],
)
def test_built_in(name: str, prompt: str, wanted: list[str], environ: dict[str, str], tmp_path: Path) -> None:
    argv = build_harnesses({}, environ)[name].argv(prompt, "s-1")
    assert argv == (str(tmp_path / "bin" / name), *wanted)


@pytest.mark.parametrize(
    ("template", "prompt", "wanted"),
    [
        (("{prompt}",), "do it", ["do it"]),
        (("{prompt}",), "--flag", [" --flag"]),
        (("-i", "{prompt}"), "--flag", ["-i", " --flag"]),
        (("-i", "{prompt}", "-v"), "", ["-v"]),
        (("run", "{prompt}", "-v"), "", ["run", "-v"]),
        (("--p={prompt}", "{prompt}"), "", []),
        (("-v", "--p={prompt}", "x"), "", ["-v", "x"]),
        (("a{prompt}b", "{prompt}x"), "p", ["a{prompt}b", "{prompt}x"]),
        (("{0}", "{prompt!r}", "{other}", "%s", "$HOME"), "p", ["{0}", "{prompt!r}", "{other}", "%s", "$HOME"]),
        (("--a={prompt}", "--b={session_id}"), "{session_id}", ["--a={session_id}", "--b=s-1"]),
        (
            ("{prompt}", "{session_id}"),
            "{session_id} {prompt} {0.__class__}",
            ["{session_id} {prompt} {0.__class__}", "s-1"],
        ),
        (("{prompt}",), "'; touch PWNED; $(x) `y`\nline \U0001f980", ["'; touch PWNED; $(x) `y`\nline \U0001f980"]),
        (("{prompt}",), "a\0b", ["ab"]),
        (("{prompt}",), "\0", []),
        (("{prompt}",), "\0-x", [" -x"]),
    ],
)
def test_templates(template: tuple[str, ...], prompt: str, wanted: list[str], environ: dict[str, str]) -> None:
    assert argv_of(template, environ, prompt) == wanted


def test_no_session_id_drops_its_option(environ: dict[str, str]) -> None:
    assert argv_of(("--session-id", "{session_id}", "{prompt}"), environ, "p", "") == ["p"]
    assert argv_of(("--id={session_id}", "{prompt}"), environ, "p", "") == ["p"]
    assert argv_of(("--p={prompt}", "{session_id}"), environ, "p", "") == ["--p=p"]


@pytest.mark.parametrize("session", ["-x", "--resume", "a b", "a/b", "../x", ".x", "a\n", "$(x)", "\u00e9", "x" * 129])
def test_what_is_no_session_id_is_refused(session: str, environ: dict[str, str]) -> None:
    with pytest.raises(StateError, match="is no session id of harness x"):
        argv_of(("{session_id}",), environ, "p", session)


@pytest.mark.parametrize("session", ["a", "0", str(uuid.UUID(int=1)), "Ab_c.d-e", "x" * 128])
def test_session_ids(session: str, environ: dict[str, str]) -> None:
    assert argv_of(("{session_id}",), environ, "p", session) == [session]


def test_new_session_ids_are_made_where_they_have_a_place(environ: dict[str, str]) -> None:
    harnesses = build_harnesses({"own": Settings(("agent", "--id={session_id}"))}, environ)
    for name in ("claude", "gemini", "own"):
        first, second = (harnesses[name].new_session_id() for _ in range(2))
        assert first != second
        assert str(uuid.UUID(first)) == first
        assert uuid.UUID(first).version == 4
        assert first in harnesses[name].argv("p", first)[-1] + " ".join(harnesses[name].argv("p", first))
    assert harnesses["codex"].new_session_id() == ""


def test_a_program_that_does_not_exist_is_named_with_a_hint(environ: dict[str, str]) -> None:
    harness = CommandHarness("mine", ("no-such-agent",), environ=environ)
    with pytest.raises(StateError, match="harness mine: there is no program 'no-such-agent' on the PATH") as caught:
        harness.argv("p", "")
    assert "harnesses.mine.argv" in caught.value.hint


@pytest.mark.parametrize("path", [None, "", "/nonexistent"])
def test_only_the_path_that_was_given_counts(
    path: str | None, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", environ["PATH"])
    given = {} if path is None else {"PATH": path}
    with pytest.raises(StateError, match="there is no program"):
        CommandHarness("x", ("agent",), environ=given).argv("p", "")


def test_a_file_that_is_not_executable_is_no_program(environ: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "bin" / "agent").chmod(0o644)
    with pytest.raises(StateError, match="there is no program"):
        argv_of((), environ, "p")


def test_the_program_is_an_absolute_path(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    absolute = str(tmp_path / "bin" / "agent")
    assert CommandHarness("x", ("agent",), environ={"PATH": "bin"}).argv("", "") == (absolute,)
    assert CommandHarness("x", ("bin/agent",), environ={}).argv("", "") == (absolute,)
    assert CommandHarness("x", (absolute,), environ={"PATH": ""}).argv("", "") == (absolute,)


def test_no_command_line_is_an_error_with_a_hint(environ: dict[str, str]) -> None:
    with pytest.raises(StateError, match="harness own has no command line"):
        build_harnesses({"own": Settings()}, environ)["own"].argv("p", "")


def test_config_adds_and_overrides(environ: dict[str, str], tmp_path: Path) -> None:
    harnesses = build_harnesses(
        {
            "claude": Settings(("agent", "{prompt}")),
            "codex": Settings(env={"A": "1"}),
            "own": Settings(("agent", "-q")),
        },
        environ,
    )
    agent = str(tmp_path / "bin" / "agent")
    assert set(harnesses) == {"claude", "codex", "gemini", "own"}
    assert all(name == harness.name for name, harness in harnesses.items())
    assert harnesses["claude"].argv("p", "") == (agent, "p")
    assert harnesses["codex"].argv("p", "")[1:] == ("--", "p")
    assert harnesses["codex"].env() == {"A": "1"}
    assert harnesses["own"].argv("p", "s") == (agent, "-q")


def test_extra_arguments_come_after_the_program(environ: dict[str, str]) -> None:
    extra = {"claude": ("--model", "opus"), "own": ("-q",), "nobody": ("-x",)}
    harnesses = build_harnesses({"own": Settings(("agent", "{prompt}"))}, environ, extra)
    assert harnesses["claude"].argv("p", "s")[1:] == ("--model", "opus", "--session-id", "s", "--", "p")
    assert harnesses["own"].argv("p", "")[1:] == ("-q", "p")
    assert harnesses["codex"].argv("p", "")[1:] == ("--", "p")
    assert "nobody" not in harnesses


def test_only_named_variables_are_passed_on(environ: dict[str, str]) -> None:
    harness = CommandHarness("x", ("agent",), {"B": "2"}, ("API_KEY", "MISSING"), environ)
    assert harness.env() == {"API_KEY": "k", "B": "2"}
    assert CommandHarness("x", ("agent",), {"API_KEY": "own"}, ("API_KEY",), environ).env() == {"API_KEY": "own"}
    assert build_harnesses({}, environ)["claude"].env() == {}


def test_a_prompt_holds_nothing_that_a_plan_does_not_show(environ: dict[str, str]) -> None:
    hostile = (
        "\x1b[31mfix\x1b[0m\tit\r\n\x1b]0;title\x07- \u202eevil\u202c \u200bnow\x00\x9b2J\u2028\U000e0041end\ue000"
    )
    (told,) = argv_of(("{prompt}",), environ, hostile)
    assert told == "fix\tit\n- evil now\nend"
    assert clean(told) == clean(hostile)


@given(st.text())
def test_what_is_given_and_what_is_shown_differ_by_layout_only(text: str) -> None:
    assert clean(plain(text)) == clean(text)


@pytest.mark.parametrize(
    ("name", "prompt", "wanted"),
    [
        ("claude", "go on", ["--resume", "s-1", "--", "go on"]),
        ("claude", "", ["--resume", "s-1"]),
        ("codex", "--yes", ["resume", "s-1", "--", "--yes"]),
        ("codex", "", ["resume", "s-1"]),
        ("gemini", "go on", ["--resume", "s-1", "--prompt-interactive=go on"]),
    ],
)
def test_built_in_programs_go_on(
    name: str, prompt: str, wanted: list[str], environ: dict[str, str], tmp_path: Path
) -> None:
    harness = build_harnesses({}, environ)[name]
    assert harness.resumes
    assert harness.resume_argv(prompt, "s-1") == (str(tmp_path / "bin" / name), *wanted)


def test_going_on_has_a_template_of_its_own(environ: dict[str, str]) -> None:
    settings = Settings(("agent", "{prompt}"), resume_argv=("agent", "-r={session_id}", "{prompt}"))
    harness = build_harnesses({"own": settings}, environ, {"own": ("-q",)})["own"]
    assert harness.resume_argv("p", "s-1")[1:] == ("-q", "-r=s-1", "p")


def test_a_conversation_that_is_not_known_is_not_gone_on_with(environ: dict[str, str]) -> None:
    assert build_harnesses({}, environ)["codex"].resume_argv("p", "") == ()


def test_whoever_changes_how_a_program_starts_says_how_it_goes_on(environ: dict[str, str]) -> None:
    harness = build_harnesses({"claude": Settings(("claude", "--safe", "{prompt}"))}, environ)["claude"]
    assert not harness.resumes
    assert harness.resume_argv("p", "s-1") == ()


@pytest.mark.parametrize("session", ["-x", "a b", "../x", "$(x)", "x" * 129])
def test_only_a_session_id_is_gone_on_with(session: str, environ: dict[str, str]) -> None:
    with pytest.raises(StateError, match="is no session id of harness claude"):
        build_harnesses({}, environ)["claude"].resume_argv("p", session)


def test_who_takes_a_prompt(environ: dict[str, str]) -> None:
    harnesses = build_harnesses({"own": Settings(("agent", "-q"))}, environ)
    assert {name for name, harness in harnesses.items() if harness.takes_prompt} == set(BUILT_IN)


def test_how_it_is_asked_to_end(environ: dict[str, str]) -> None:
    harnesses = build_harnesses({"own": Settings(("agent",), stop_signal="INT", grace_seconds=20.0)}, environ)
    assert (harnesses["own"].stop_signal, harnesses["own"].grace_seconds) == (signal.SIGINT, 20.0)
    assert (harnesses["claude"].stop_signal, harnesses["claude"].grace_seconds) == (signal.SIGTERM, None)


def asked(tmp_path: Path, text: str, **settings: object) -> CommandHarness:
    """A harness whose version is answered by a script."""
    script(tmp_path / "agent", text)
    given = Settings(("agent",), version_argv=("agent", "version"), **settings)  # type: ignore[arg-type]
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin", "GITHUB_TOKEN": "job", "KEY": "k"}
    return build_harnesses({"own": given}, environ, base_env={"HOME": "/h"})["own"]


def test_the_version_is_asked_once(tmp_path: Path) -> None:
    harness = asked(tmp_path, f'echo "$1" >>{tmp_path}/asked; echo warning; echo "agent 1.2"')
    assert [harness.check(), harness.check(), harness.version()] == ["", "", "agent 1.2"]
    assert (tmp_path / "asked").read_text() == "version\n"


def test_a_version_that_does_not_come_is_said_in_one_line_and_not_asked_for_again_at_once(tmp_path: Path) -> None:
    harness = asked(tmp_path, f"echo x >>{tmp_path}/asked; echo first >&2; echo 'no such library' >&2; exit 127")
    said = {harness.check(), harness.check()}
    assert said == {"harness own: `agent version` failed with 127: no such library"}
    assert (tmp_path / "asked").read_text() == "x\n"


def test_a_version_is_asked_for_again_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    harness = asked(tmp_path, "exit 1")
    assert harness.check()
    script(tmp_path / "agent", "echo 2")
    monkeypatch.setattr("loopctl.adapters.harnesses._BROKEN_FOR", 0.0)
    harness._broken = ("", 0.0)
    assert harness.check() == ""


def test_a_program_that_says_nothing_of_its_version_is_not_the_one_that_was_meant(tmp_path: Path) -> None:
    assert asked(tmp_path, "true").check() == "harness own: `agent version` said nothing"


def test_a_program_that_does_not_answer_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loopctl.adapters.harnesses.VERSION_TIMEOUT", 0.2)
    assert asked(tmp_path, "exec sleep 1000").check() == "harness own: `agent version` did not answer within 0.2 s"


def test_the_version_is_asked_in_the_agents_own_world(tmp_path: Path) -> None:
    harness = asked(tmp_path, f"env >{tmp_path}/env; pwd >{tmp_path}/cwd; echo 1", env={"A": "1"}, pass_env=("KEY",))
    assert harness.check() == ""
    lines = set((tmp_path / "env").read_text().splitlines())
    assert {"HOME=/h", "A=1", "KEY=k"} <= lines
    assert not any(line.startswith("GITHUB_TOKEN") for line in lines)
    assert (tmp_path / "cwd").read_text() == "/\n"


def test_a_program_that_does_not_exist_fails_its_check(environ: dict[str, str]) -> None:
    message = "harness own: there is no program 'nobody' on the PATH"
    assert build_harnesses({"own": Settings(("nobody",))}, environ)["own"].check() == message


@pytest.mark.parametrize(
    ("settings", "asks"),
    [
        (Settings(), True),
        (Settings(("claude", "--safe")), True),
        (Settings(("agent",)), False),
        (Settings(("agent",), version_argv=("claude", "-v")), True),
    ],
)
def test_a_built_in_program_knows_how_to_say_its_version(
    settings: Settings, asks: bool, environ: dict[str, str], tmp_path: Path
) -> None:
    script(tmp_path / "bin" / "claude", 'echo "$1"')
    said = build_harnesses({"claude": settings}, environ)["claude"].version()
    assert said == (settings.version_argv or ("", "--version" if asks else ""))[1]

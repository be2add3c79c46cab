"""Harnesses: how an agent program is started, goes on and is asked to stop. Claude Code, Codex and Gemini are built in;
config adds and overrides.

A command line is a template of whole arguments. `{prompt}` and `{session_id}` stand for one argument, or for what
follows the `=` of one (`--prompt={prompt}`). No shell and no format string is involved, and what was put in is not
looked at again. An empty value drops its argument and the option directly before it (`-i {prompt}`, `-- {prompt}`).
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from loopctl.adapters.shell import clean_env, run
from loopctl.errors import StateError
from loopctl.model.plain import plain

PROMPT = "{prompt}"
SESSION_ID = "{session_id}"

_SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")

#: How long a program may take to say its version, in seconds: those that run on Node need some on a busy machine.
VERSION_TIMEOUT = 30.0
#: How long a program that did not answer is believed to be broken, in seconds: a hundred starts must not each wait for it.
_BROKEN_FOR = 60.0
_STOP_SIGNALS: Mapping[str, int] = MappingProxyType(
    {"TERM": signal.SIGTERM, "INT": signal.SIGINT, "HUP": signal.SIGHUP}
)


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """The command lines of a program that loopctl knows: of a fresh start, and of one that goes on with a conversation."""

    argv: tuple[str, ...]
    resume_argv: tuple[str, ...]


#: `--` ends the options of claude and codex, so that a prompt such as `- [ ] fix it` is none; gemini takes the prompt as
#: the value of an option. Codex takes no session id from us, so its conversation is known only where somebody registered it.
BUILT_IN: Mapping[str, BuiltIn] = MappingProxyType(
    {
        "claude": BuiltIn(
            ("claude", "--session-id", SESSION_ID, "--", PROMPT), ("claude", "--resume", SESSION_ID, "--", PROMPT)
        ),
        "codex": BuiltIn(("codex", "--", PROMPT), ("codex", "resume", SESSION_ID, "--", PROMPT)),
        "gemini": BuiltIn(
            ("gemini", "--session-id", SESSION_ID, f"--prompt-interactive={PROMPT}"),
            ("gemini", "--resume", SESSION_ID, f"--prompt-interactive={PROMPT}"),
        ),
    }
)


class HarnessSettings(Protocol):
    """What config says of one harness."""

    @property
    def argv(self) -> Sequence[str]:
        """The template of a start; empty means the built-in one."""
        ...

    @property
    def resume_argv(self) -> Sequence[str]:
        """The template that goes on with a conversation; empty means the built-in one, where `argv` is the built-in one too."""
        ...

    @property
    def version_argv(self) -> Sequence[str]:
        """What asks the program for its version; empty means `--version` for a built-in program, and nothing for others."""
        ...

    @property
    def stop_signal(self) -> str:
        """The signal that asks it to end: TERM, INT or HUP."""
        ...

    @property
    def grace_seconds(self) -> float | None:
        """How long it may take to end, None where config does not say."""
        ...

    @property
    def env(self) -> Mapping[str, str]:
        """Variables to set."""
        ...

    @property
    def pass_env(self) -> Sequence[str]:
        """Names of variables to pass on from loopctl's own environment."""
        ...


class CommandHarness:
    """A program that is started by a command line."""

    def __init__(
        self,
        name: str,
        argv: tuple[str, ...],
        env: Mapping[str, str] = MappingProxyType({}),
        pass_env: tuple[str, ...] = (),
        environ: Mapping[str, str] = MappingProxyType({}),
        *,
        resume_argv: tuple[str, ...] = (),
        version_argv: tuple[str, ...] = (),
        stop_signal: str = "TERM",
        grace_seconds: float | None = None,
        base_env: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`environ` is loopctl's own environment: its PATH finds the program, and `pass_env` is taken from it. `base_env` is
        what every agent gets."""
        self.name = name
        self.stop_signal = _STOP_SIGNALS[stop_signal]
        self.grace_seconds = grace_seconds
        self.resumes = bool(resume_argv)
        self.takes_prompt = any(argument.endswith(PROMPT) for argument in argv)
        self._argv = argv
        self._resume_argv = resume_argv
        self._version_argv = version_argv
        self._env = dict(env)
        self._pass_env = pass_env
        self._environ = environ
        self._base_env = base_env
        self._version = ""
        self._broken = ("", 0.0)

    def argv(self, prompt: str, session_id: str) -> tuple[str, ...]:
        """The command line of a fresh start, the program as an absolute path.

        A prompt comes without control and invisible characters, so that the agent reads what a plan shows. One that begins
        with `-` gets a space before it where it could be taken for an option. Raises StateError when
        the program does not exist or the session id is none.
        """
        return self._command(self._argv, prompt, session_id)

    def resume_argv(self, prompt: str, session_id: str) -> tuple[str, ...]:
        """The command line that goes on with a conversation, () where the program cannot or the conversation is not known.

        Raises StateError like `argv`.
        """
        return self._command(self._resume_argv, prompt, session_id) if self.resumes and session_id else ()

    def check(self) -> str:
        """Why it cannot be started (no such program, its version does not answer), in one line, or ""."""
        try:
            self._program(self._argv)
            self.version()
        except StateError as error:
            return error.message
        return ""

    def version(self) -> str:
        """What the program says of its version, asked once; "" where config does not say how to ask it.

        Raises StateError when it does not answer, and for a while believes that it will not.
        """
        if self._version or not self._version_argv:
            return self._version
        message, until = self._broken
        if time.monotonic() < until:
            raise StateError(message)
        try:
            self._version = self._ask()
        except StateError as error:
            self._broken = (error.message, time.monotonic() + _BROKEN_FOR)
            raise
        return self._version

    def env(self) -> Mapping[str, str]:
        """The variables that config sets, and those that it passes on and that exist."""
        passed = {name: self._environ[name] for name in self._pass_env if name in self._environ}
        return passed | self._env

    def new_session_id(self) -> str:
        """A new UUID where the command line has a place for it, else ""."""
        return str(uuid.uuid4()) if any(argument.endswith(SESSION_ID) for argument in self._argv) else ""

    def _command(self, template: tuple[str, ...], prompt: str, session_id: str) -> tuple[str, ...]:
        if session_id and not _SESSION_ID.fullmatch(session_id):
            raise StateError(f"{session_id!r} is no session id of harness {self.name}")
        values = {PROMPT: plain(prompt), SESSION_ID: session_id}
        return (self._program(template), *_filled(template[1:], values))

    def _program(self, template: tuple[str, ...]) -> str:
        hint = f"install it, or set harnesses.{self.name}.argv in the config"
        if not any(template[:1]):
            raise StateError(f"harness {self.name} has no command line", hint=hint)
        found = shutil.which(template[0], path=self._environ.get("PATH", os.defpath))
        if not found:
            raise StateError(f"harness {self.name}: there is no program {template[0]!r} on the PATH", hint=hint)
        return str(Path(found).absolute())

    def _ask(self) -> str:
        """Ask for the version in the environment that the agent gets, and in a folder that is nobody's project."""
        command = f"harness {self.name}: `{' '.join(self._version_argv)}`"
        program = self._program(self._version_argv)
        env = clean_env({"PATH": self._environ.get("PATH", os.defpath), **self._base_env}) | dict(self.env())
        done = run([program, *self._version_argv[1:]], env=env, timeout=VERSION_TIMEOUT, cwd="/")
        if done.timed_out:
            raise StateError(f"{command} did not answer within {VERSION_TIMEOUT:g} s")
        if done.code:
            said = _last_line(done.stderr) or _last_line(done.text)
            raise StateError(f"{command} failed with {done.code}" + (f": {said}" if said else ""))
        said = _last_line(done.text) or _last_line(done.stderr)
        if not said:
            raise StateError(f"{command} said nothing")
        return said


def build_harnesses(
    settings: Mapping[str, HarnessSettings],
    environ: Mapping[str, str],
    extra_args: Mapping[str, Sequence[str]] = MappingProxyType({}),
    base_env: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, CommandHarness]:
    """Every harness by name: the built-in ones, and those of the config, which may override them.

    `extra_args` (routing.harnessArgs) come right after the program. `base_env` is the environment of every agent.
    """
    return {
        name: _build(name, settings.get(name), environ, tuple(extra_args.get(name, ())), base_env)
        for name in {**BUILT_IN, **settings}
    }


def _build(
    name: str,
    given: HarnessSettings | None,
    environ: Mapping[str, str],
    extra: tuple[str, ...],
    base_env: Mapping[str, str],
) -> CommandHarness:
    known = BUILT_IN.get(name, BuiltIn((), ()))
    own = tuple(given.argv) if given else ()
    argv = own or known.argv or ("",)
    # Whoever changes how a program is started has to say how it goes on: flags that it needs would be missing else.
    resume = (tuple(given.resume_argv) if given else ()) or (() if own else known.resume_argv)
    version = tuple(given.version_argv) if given else ()
    if not version and argv[:1] == known.argv[:1]:
        version = (argv[0], "--version")
    return CommandHarness(
        name,
        _with(extra, argv),
        given.env if given else {},
        tuple(given.pass_env) if given else (),
        environ,
        resume_argv=_with(extra, resume),
        version_argv=version,
        stop_signal=given.stop_signal if given else "TERM",
        grace_seconds=given.grace_seconds if given else None,
        base_env=base_env,
    )


def _with(extra: tuple[str, ...], template: tuple[str, ...]) -> tuple[str, ...]:
    return (*template[:1], *extra, *template[1:]) if template else ()


def _last_line(text: str) -> str:
    """The last line that says something, short: programs warn before they answer."""
    lines = [line.strip() for line in plain(text).splitlines() if line.strip()]
    return lines[-1][:200] if lines else ""


def _filled(template: Sequence[str], values: Mapping[str, str]) -> list[str]:
    argv: list[str] = []
    for argument, before in zip(template, ("", *template), strict=False):
        holder = next((name for name in values if argument == name or argument.endswith(f"={name}")), "")
        if not holder:
            argv.append(argument)
        elif values[holder]:
            argv.append(argument.removesuffix(holder) + _guarded(values[holder], argument == holder and before != "--"))
        elif argument == holder and before.startswith("-") and not before.endswith(tuple(values)):
            argv.pop()
    return argv


def _guarded(value: str, could_be_option: bool) -> str:
    return f" {value}" if could_be_option and value.startswith("-") else value

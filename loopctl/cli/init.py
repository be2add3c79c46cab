"""loopctl init: a first config and playbook, or the unit of a service that runs the controller."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from xml.sax.saxutils import escape

import click

from loopctl.cli.options import config_option
from loopctl.cli.output import out, say
from loopctl.cli.where import here
from loopctl.data import playbook_path
from loopctl.errors import StateError, UsageError

AUTO = "auto"
SYSTEMD = "systemd"
LAUNCHD = "launchd"
LABEL = "dev.loopctl.controller"

_CONFIG = """\
# Where the world is. `loopctl schema config` prints every key. Check this file with `loopctl validate .loopctl/config.yaml`.

polling:
  intervalSeconds: 60
  sources:
    # Items with this label are seen. Add repositories of yours, then try `loopctl doctor`.
    - provider: github
      repos: [OWNER/REPO]
      label: agent

routing:
  defaultHarness: claude
  # Logins whose webhooks may start something. Endings need nobody's leave.
  authorizedUsers: []
"""
_PLAYBOOK = """\
# What should be true. See what differs with `loopctl plan playbook.yml`, make it so with `loopctl apply playbook.yml`,
# keep it so with `loopctl run playbook.yml`.

- name: Ended work items leave a retained, read-only pane
  hosts: localhost
  limits: {max_changes: 10, max_fraction: 0.5}
  rules:
    - name: closed or merged
      match:
        item: {state: [closed, merged]}
      ensure:
        session: closed
        transcript: kept
"""
_FILES = {".loopctl/config.yaml": _CONFIG, "playbook.yml": _PLAYBOOK}

_UNIT = """\
# Save as ~/.config/systemd/user/loopctl.service, then:
#   systemctl --user daemon-reload && systemctl --user enable --now loopctl
#   loginctl enable-linger        # so that it, and the sessions, outlive your login
# Look at it with `journalctl --user -u loopctl` and `loopctl status`.
[Unit]
Description=loopctl controller
After=network-online.target

[Service]
Type=exec
ExecStart={command}
WorkingDirectory={folder}
Environment={path}
# The secret of the webhook, where there is one: NAME=value, in a file that only you can read.
EnvironmentFile=-%h/.config/loopctl/secrets.env
# Only the controller itself is stopped: the tmux server that it may have started, and so every agent, lives on.
KillMode=process
# The action in hand is finished first.
TimeoutStopSec=120
Restart=on-failure
RestartSec=10
# Another controller runs, or the command line, the config or a playbook is wrong: that does not pass by itself.
RestartPreventExitStatus=3 64 65

[Install]
WantedBy=default.target
"""
_PLIST = """\
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<!-- Save as ~/Library/LaunchAgents/{label}.plist, then:
     launchctl bootstrap gui/$(id -u) ~/Library/LaunchAgents/{label}.plist -->
<plist version="1.0">
<dict>
  <key>Label</key>
  <string>{label}</string>
  <key>ProgramArguments</key>
  <array>
{arguments}
  </array>
  <key>WorkingDirectory</key>
  <string>{folder}</string>
  <key>EnvironmentVariables</key>
  <dict>
    <key>PATH</key>
    <string>{path}</string>
  </dict>
  <!-- The tmux server that the controller may have started, and so every agent, lives on when it stops. -->
  <key>AbandonProcessGroup</key>
  <true/>
  <key>RunAtLoad</key>
  <true/>
  <key>KeepAlive</key>
  <dict>
    <key>SuccessfulExit</key>
    <false/>
  </dict>
  <key>ThrottleInterval</key>
  <integer>10</integer>
  <key>ExitTimeOut</key>
  <integer>120</integer>
  <key>StandardErrorPath</key>
  <string>{log}</string>
</dict>
</plist>
"""


@click.command(short_help="Write a first config and playbook, or print a service's unit.")
@click.argument("folder", required=False, metavar="[DIR]")
@config_option
@click.option(
    "--service",
    type=click.Choice([AUTO, SYSTEMD, LAUNCHD]),
    is_flag=False,
    flag_value=AUTO,
    help="Print the unit of a user service that runs the controller instead (systemd, or launchd on macOS).",
)
@click.option(
    "--playbook",
    "playbooks",
    multiple=True,
    metavar="PLAYBOOK",
    help="What the service runs. May be repeated.  [default: close-ended-items]",
)
@click.option("--webhook", is_flag=True, help="Let the service listen for webhooks.")
def init(
    folder: str | None, config: str | None, service: str | None, playbooks: tuple[str, ...], webhook: bool
) -> None:
    """Write DIR/.loopctl/config.yaml and DIR/playbook.yml (DIR is this folder). What exists is never overwritten.

    With --service, print a unit for systemd or launchd that runs the controller, and write nothing.
    """
    if service is not None:
        out(
            unit(
                _native() if service == AUTO else service,
                _command(config, playbooks, webhook),
                here() / (folder or "."),
            )
        )
        return
    if config or playbooks or webhook:
        raise UsageError("-c, --playbook and --webhook say what a service runs: they need --service")
    _write_files(Path(folder or "."))


def unit(service: str, command: list[str], folder: Path) -> str:
    """The text of a unit. Raises UsageError for a path that it cannot hold."""
    path = os.environ.get("PATH", os.defpath)
    if any("\n" in word for word in (*command, str(folder), path)):
        raise UsageError("a path with a line break cannot stand in a unit")
    if service == SYSTEMD:
        return _UNIT.format(
            command=" ".join(_systemd_word(word) for word in command),
            folder=_doubled(str(folder)),
            path=_quoted(f"PATH={path}"),
        )
    return _PLIST.format(
        label=LABEL,
        arguments="\n".join(f"    <string>{escape(word)}</string>" for word in command),
        folder=escape(str(folder)),
        path=escape(path),
        log=escape(str(Path.home() / "Library/Logs/loopctl.log")),
    )


def _native() -> str:
    """What this system has."""
    return LAUNCHD if sys.platform == "darwin" else SYSTEMD


def _command(config: str | None, playbooks: tuple[str, ...], webhook: bool) -> list[str]:
    program = Path(sys.argv[0])
    named = program.name == "loopctl" and program.exists()
    start = [str(here() / program)] if named else [sys.executable, "-m", "loopctl.cli.main"]
    for book in playbooks:
        if not (Path(book).exists() or playbook_path(book)):
            raise UsageError(f"--playbook {book}: no such file, and no packaged playbook of that name")
    if config and not Path(config).expanduser().exists():
        raise UsageError(f"--config {config}: no such file")
    books = [str(here() / book) if Path(book).exists() else book for book in playbooks or ("close-ended-items",)]
    where = ["--config", str(here() / Path(config).expanduser())] if config else []
    return [*start, "run", *books, *where, *(["--webhook"] if webhook else [])]


def _doubled(text: str) -> str:
    return text.replace("%", "%%")


def _systemd_word(word: str) -> str:
    """A word of a command: systemd would expand $ as well."""
    return _quoted(word).replace("$", "$$")


def _quoted(word: str) -> str:
    text = _doubled(word)
    if shlex.quote(word) == word:
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _write_files(folder: Path) -> None:
    for name, text in _FILES.items():
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            say(f"kept   {path}")
        except OSError as error:
            raise StateError(f"{path}: {error.strerror}") from None
        else:
            say(f"wrote  {path}")
    say("next: name your repositories in the config, then `loopctl doctor` and `loopctl plan playbook.yml`")

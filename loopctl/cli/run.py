"""loopctl run: the controller."""

from __future__ import annotations

import os
import random
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from loopctl.cli.options import config_option, no_empty_words, seconds, tags_of
from loopctl.cli.output import say, say_at_once
from loopctl.cli.where import here, read_config
from loopctl.errors import UsageError

if TYPE_CHECKING:
    from loopctl.cli.wiring import Stop
    from loopctl.cli.wiring_github import Hosts
    from loopctl.config import Config
    from loopctl.controller.log import Log
    from loopctl.controller.loop import Controller, Inbox
    from loopctl.controller.reload import Loaded, Reloader

STATUS_FILE = "controller.json"
_EXTRA = ("gidgethub", "prometheus_client", "starlette", "uvicorn", "watchfiles")


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line says, and the folder that it was said in."""

    folder: Path
    playbooks: tuple[str, ...]
    config: str | None
    extra_vars: tuple[str, ...]
    tags: tuple[str, ...]
    interval: float | None
    webhook: bool
    insecure: bool


@click.command(short_help="Keep the playbooks true, from now on: the controller.")
@click.argument("playbooks", nargs=-1, required=True, metavar="PLAYBOOK...", callback=no_empty_words)
@config_option
@click.option(
    "-e", "--extra-vars", metavar="K=V", multiple=True, help="Set a variable of the playbooks. May be repeated."
)
@click.option(
    "--tags", metavar="TAGS", multiple=True, help="Only rules and plays with one of these tags. May be repeated."
)
@click.option("--once", is_flag=True, help="Look once, act, and end: for cron and CI.")
@click.option(
    "--interval",
    callback=seconds(0.1),
    metavar="SECONDS",
    help="Seconds between two looks at everything (else polling.intervalSeconds).",
)
@click.option("--webhook", is_flag=True, help="Also listen for GitHub's webhooks (needs the extra `serve`).")
@click.option("--insecure", is_flag=True, help="Take webhooks without a signature; on a loopback address only.")
def run(
    playbooks: tuple[str, ...],
    config: str | None,
    extra_vars: tuple[str, ...],
    tags: tuple[str, ...],
    once: bool,
    interval: float | None,
    webhook: bool,
    insecure: bool,
) -> int:
    """Keep the playbooks true: look, plan and apply again and again, without asking.

    Limits hold, and what is over them is reported and left. SIGTERM ends it after the action in hand; no session ends with it.
    One controller runs for a state root. Edits of the config and the playbooks take effect at the next look.
    """
    if once and webhook:
        raise UsageError("--once looks once: there is nothing to listen for (leave out --webhook)")
    if insecure and not webhook:
        raise UsageError("--insecure says how to take webhooks: it needs --webhook")
    options = Options(here(), playbooks, config, extra_vars, tags, interval, webhook, insecure)
    from loopctl.cli.wiring import Stop
    from loopctl.cli.wiring_controller import controller_lock
    from loopctl.controller.reload import Reloader

    log, stop = _log(say), Stop()
    hosts: Hosts = {}
    with _signals(stop, _log(say_at_once)) as wakeup:
        reloader = Reloader(lambda keep: load(options, keep, stop, log, hosts))
        given = reloader.loaded.config
        if given.warnings:
            log("warning", f"{given.path}: without meaning in loopctl: {', '.join(given.warnings)}")
        if not (given.path or once):
            from loopctl.config import config_places

            places = config_places(None, os.environ, options.folder)
            log(
                "info", "there is no config; one that appears takes effect at the next look", places=[*map(str, places)]
            )
        if webhook:
            check_webhook(given, insecure, os.environ)
        with controller_lock(given), _inbox(options, reloader.loaded, wakeup, log) as inbox:
            return _controller(reloader, inbox, log, options).run(once=once)


def _controller(reloader: Reloader, inbox: Inbox, log: Log, options: Options) -> Controller:
    from loopctl.cli.files import write_private
    from loopctl.controller.loop import Controller
    from loopctl.render.json import json_text

    status = Path(reloader.loaded.config.state_root, STATUS_FILE)
    about = {"pid": os.getpid(), "playbooks": list(options.playbooks), "webhook": options.webhook}
    return Controller(
        reloader, inbox, log, lambda snapshot: write_private(status, json_text(snapshot)), random.random, about
    )


def load(options: Options, keep: Config | None, stop: Stop, log: Log, hosts: Hosts) -> Loaded:
    """Read config and playbooks and build their world. Raises DocumentError and UsageError."""
    from loopctl.cli.fit import check_harnesses
    from loopctl.cli.wiring import build_world, open_journal
    from loopctl.config import config_places
    from loopctl.controller.reload import Loaded, digests, keep_fixed
    from loopctl.data import playbook_path
    from loopctl.playbook.compile import load_playbook
    from loopctl.playbook.extra_vars import parse_extra_vars

    books = [str(options.folder / n if Path(n).exists() else playbook_path(n) or n) for n in options.playbooks]
    places = [str(place) for place in config_places(options.config, os.environ, options.folder)]
    seen = digests([*places, *books])
    given = read_config(options.config, options.folder)
    config = keep_fixed(given, keep)
    if options.interval is not None:
        config = replace(config, polling=replace(config.polling, interval_seconds=options.interval))
    world = build_world(config, "controller", os.environ, lambda text: log("info", text), stop, hosts)
    world = replace(world, journal=open_journal(config.event_log, "controller", lambda text: log("warning", text)))
    playbook = load_playbook(
        options.playbooks,
        extra_vars=parse_extra_vars(options.extra_vars),
        tags=tags_of(options.tags),
        policy=world.policy,
    )
    check_harnesses(playbook, world, config.path)
    # A place that is looked at before the one in use is watched too, and all of them while there is no config.
    watched = places[: places.index(given.path) + 1 if given.path else None]
    return Loaded(given, config, playbook, world, {file: seen[file] for file in (*watched, *books)})


def check_webhook(config: Config, insecure: bool, environ: Mapping[str, str]) -> None:
    """Refuse to listen where anybody could send anything. Raises UsageError."""
    from importlib.util import find_spec

    missing = [name for name in _EXTRA if find_spec(name) is None]
    if missing:
        raise UsageError(
            f"--webhook needs {', '.join(missing)}, not installed here", hint="pip install 'loopctl[serve]'"
        )
    hook = config.webhook
    if insecure:
        if not _is_loopback(hook.host):
            raise UsageError(f"--insecure is for a loopback address only, and webhooks.ghWebhook.host is {hook.host}")
        return
    if not environ.get(hook.secret_env):
        raise UsageError(
            f"there is no webhook secret: ${hook.secret_env} is not set",
            hint="set it to the secret of the webhook on GitHub (webhooks.ghWebhook.secretEnv names another variable)",
        )


def _is_loopback(host: str) -> bool:
    import ipaddress

    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def _log(write: Callable[[str], object]) -> Log:
    from loopctl.controller.log import Log

    return Log(write, lambda: datetime.now(UTC), as_json=not sys.stderr.isatty())


@contextmanager
def _inbox(options: Options, loaded: Loaded, wakeup: int, log: Log) -> Iterator[Inbox]:
    from loopctl.controller.inbox import Receiver, Silence

    if not options.webhook:
        yield Silence(wakeup)
        return
    from loopctl.cli.wiring_controller import start_receiver

    if options.insecure:
        log("warning", "webhooks are taken WITHOUT A SIGNATURE: whoever reaches the port can send them")
    start = partial(start_receiver, loaded.config.webhook.secret_env)
    receiver = Receiver(wakeup, start, receiver_settings(loaded, options.insecure), loaded.config, log)
    try:
        yield receiver
    finally:
        receiver.close()


def receiver_settings(loaded: Loaded, insecure: bool) -> Callable[[Config], Mapping[str, Any]]:
    """What the receiver is told of a config."""
    from loopctl.controller.routing import listened_to

    def settings(config: Config) -> Mapping[str, Any]:
        hook = config.webhook
        return {
            "host": hook.host,
            "port": hook.port,
            "path": hook.path,
            "secret_env": hook.secret_env,
            "insecure": insecure,
            "events": sorted(listened_to(hook.events)),
            "authorized": sorted(login.lower() for login in hook.authorized_users),
            "remembered": hook.dedup_cache_size,
            "trusts": hook.trust_state and not insecure,
            "event_log": asdict(config.event_log),
            "files": list(loaded.files),
        }

    return settings


@contextmanager
def _signals(stop: Stop, log: Log) -> Iterator[int]:
    """SIGINT and SIGTERM ask for an orderly stop, and `log` says so from inside their handler. Gives a descriptor that they
    make readable."""
    reading, writing = os.pipe()
    for descriptor in (reading, writing):
        os.set_blocking(descriptor, False)

    def ask(signum: int, frame: object) -> None:
        if not stop.asked:
            log("info", "stopping after the action in hand", signal=signal.Signals(signum).name)
        stop.asked = True

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    waker = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    try:
        yield reading
    finally:
        signal.set_wakeup_fd(waker)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(reading)
        os.close(writing)

"""How a session is made, as a tmux script, and what is read of the answer. Pure, but for a look at the folder."""

from __future__ import annotations

from pathlib import Path

from loopctl.adapters.tmux_format import NAME, PANE_FORMAT, checked, first_line, literal, parse_pane, quote
from loopctl.model.facts import REFUSED, Unknown
from loopctl.ports import Started, StartSpec


def spec_problem(spec: StartSpec) -> str:
    """Why tmux is not even asked, or ""."""
    if not NAME.match(spec.name):
        return f"{spec.name!r} cannot be a session name: letters, digits, _ and - only"
    if not spec.argv:
        return "the harness has no command line"
    if not Path(spec.cwd).is_dir():
        return f"{spec.cwd} is not a folder"
    texts = [spec.cwd, *spec.argv, *spec.env, *spec.env.values()]
    return "a NUL cannot be passed on" if any("\0" in text for text in texts) else ""


def start_line(spec: StartSpec, nonce: str, remain: str, keeper: tuple[str, ...]) -> str:
    """One line = one chain: after a failed new-session nothing of it is run on somebody else's session."""
    # One word would be given to a shell; two are executed as they are.
    argv = keeper + spec.argv if keeper or len(spec.argv) > 1 else ("env", *spec.argv)
    env = " ".join(f"-e {quote(f'{key}={value}')}" for key, value in spec.env.items())
    command = " ".join(quote(word) for word in argv)
    there = quote(f"={spec.name}:")
    return " ; ".join(
        [
            f"new-session -d -P -F {quote(f'{nonce} {spec.id} {PANE_FORMAT}')} -x 200 -y 50 -s {quote(spec.name)}"
            f" -c {quote(literal(spec.cwd))} {env} -- {command}",
            f"set-option -w -t {there} remain-on-exit {remain}",
            f"set-option -t {there} @loopctl_id {quote(checked(spec.id))}",
            f"set-option -t {there} @loopctl_ref {quote(str(spec.ref))}",
            f"set-option -p -t {there} @loopctl_command {quote(spec.argv[0].rpartition('/')[2])}",
        ]
    )


def started(text: str, nonce: str) -> dict[str, Started]:
    """Spec id -> what was made, by the lines that begin with the nonce."""
    made: dict[str, Started] = {}
    for line in text.split("\n"):
        if line.startswith(nonce + " "):
            _, id_, rest = line.split(" ", 2)
            parsed = parse_pane(rest)
            if parsed:
                made[id_] = Started(parsed[0], parsed[2])
    return made


def why_not(said: str) -> Unknown:
    """A chain stops where it fails, and new-session is its first command: with a complaint there is no pane."""
    return Unknown(first_line(said), REFUSED) if said.strip() else Unknown("tmux made no pane and did not say why")

"""Run the fake GitHub on its own: `python -m tests.fake_github --socket PATH --state FILE.json`.

The state file is read at each request: `{"items": [{"ref": "octo/app#15", "kind": "issue", "state": "closed",
"reason": "completed", "labels": ["loop"]}], "fault": "bad_gateway"}` (fault: a name in faults.py, or absent).
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
from pathlib import Path

from tests.fake_github.faults import BY_NAME, Fault
from tests.fake_github.server import FakeGitHub


class _FromFile(FakeGitHub):
    state: Path

    def next_fault(self) -> Fault | None:
        document = json.loads(self.state.read_text())
        self.load(document)
        name = document.get("fault")
        return BY_NAME[name] if name else None


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fake_github", description=__doc__)
    parser.add_argument("--socket", required=True)
    parser.add_argument("--state", required=True, type=Path)
    parser.add_argument("--host", default="github.com")
    options = parser.parse_args()
    fake = _FromFile(options.host, options.socket)
    fake.state = options.state
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with fake:
        print(json.dumps(fake.env()), flush=True)  # noqa: T201 -- the caller reads where gh finds it
        threading.Event().wait()


if __name__ == "__main__":
    main()

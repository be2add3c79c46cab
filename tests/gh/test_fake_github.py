"""The fake GitHub as a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from loopctl.adapters.github import GitHub
from loopctl.adapters.github_api import GitHubApi
from loopctl.model.facts import Known, Unknown
from loopctl.model.refs import WorkItemRef
from tests.support import ROOT

pytestmark = pytest.mark.gh


def test_it_runs_alone_and_follows_its_state_file(gh: str, tmp_path: Path) -> None:
    state, item = tmp_path / "state.json", {"ref": "octo/app#15", "state": "open", "labels": ["loop"]}
    state.write_text(json.dumps({"items": [item]}))
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="lc-") as folder:
        argv = [sys.executable, "-m", "tests.fake_github", "--socket", f"{folder}/s", "--state", str(state)]
        with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout
            try:
                env = dict(os.environ) | json.loads(process.stdout.readline())
                provider, ref = (
                    GitHub(GitHubApi("github.com", env, gh), ["octo/app"]),
                    WorkItemRef.parse("github:octo/app#15"),
                )

                def said() -> tuple[str, str]:
                    fact = provider.get([ref])[ref]
                    return (
                        (fact.value.state, fact.value.reason) if isinstance(fact, Known) else ("unknown", fact.reason)
                    )

                assert said() == ("open", "")
                state.write_text(json.dumps({"items": [item | {"state": "closed", "reason": "not_planned"}]}))
                assert said() == ("closed", "not_planned")
                state.write_text(json.dumps({"items": [item], "fault": "bad_gateway"}))
                assert said() == ("unknown", "GitHub: Bad Gateway (HTTP 502)")
                assert isinstance(provider.listed(), Unknown)
            finally:
                process.terminate()

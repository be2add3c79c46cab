"""What every provider must do, whoever wrote it: the packaged contract, on each provider of ours and on the fake."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from loopctl.adapters.github import GitHub
from loopctl.adapters.github_api import GitHubApi
from loopctl.adapters.items_file import ItemsFile
from loopctl.testing import CONTRACT_ITEMS, CONTRACT_LABEL, ProviderCase, ProviderContract
from tests.fake_github import FakeGitHub, faults


class TestItemsFile(ProviderContract):
    @pytest.fixture
    def case(self, tmp_path: Path) -> ProviderCase:
        file = tmp_path / "items.yaml"
        rows = [dict(row) for row in CONTRACT_ITEMS]
        file.write_text(json.dumps(rows))

        def change(ref: str, state: str) -> None:
            next(row for row in rows if row["ref"] == ref)["state"] = state
            file.write_text(json.dumps(rows))

        return ProviderCase("items", ItemsFile(str(file), CONTRACT_LABEL), change, file.unlink)


@pytest.mark.gh
class TestGitHub(ProviderContract):
    @pytest.fixture
    def case(self) -> Iterator[ProviderCase]:
        gh = shutil.which("gh", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
        if gh is None:
            pytest.skip("there is no gh here")
        with FakeGitHub() as fake:
            fake.load({"items": CONTRACT_ITEMS})
            api = GitHubApi("github.com", os.environ | fake.env(), gh)
            provider = GitHub(api, ["octo/app", "octo/web"], CONTRACT_LABEL)

            def change(ref: str, state: str) -> None:
                name, _, number = ref.partition("#")
                fake.change(name, int(number), state=state.upper())

            yield ProviderCase("github", provider, change, lambda: fake.fail(faults.BAD_GATEWAY))

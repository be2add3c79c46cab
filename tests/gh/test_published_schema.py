"""Every query that is sent is valid in GitHub's own schema, and the fake's schema is a part of it.

The schema is the npm package @octokit/graphql-schema, downloaded once into pytest's cache and not kept in the repository.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
from graphql import (
    GraphQLEnumType,
    GraphQLInputObjectType,
    GraphQLInterfaceType,
    GraphQLObjectType,
    GraphQLSchema,
    GraphQLUnionType,
    build_schema,
    parse,
    validate,
)

from loopctl.adapters.github_query import ISSUES, PULL_REQUESTS, Want, health_query, items_query, listing_query
from loopctl.adapters.github_say import add_mutation, comments_query, update_mutation
from loopctl.adapters.github_threads import Want as Thread
from loopctl.adapters.github_threads import threads_query
from loopctl.model.refs import WorkItemRef
from loopctl.model.talk import CONVERSATION, INLINE, REVIEW
from tests.fake_github.schema import schema as fake_schema

PACKAGE = "@octokit/graphql-schema@15.26.1"
# npm finds its registry through the person's own settings, which no test gets to see.
_ENVIRON = dict(os.environ)

REFS = [WorkItemRef.parse(text, "github") for text in ("octo/app#1", "octo/app#2", "octo/web#3")]
BOTH = [Want("octo/app", ISSUES), Want("octo/app", PULL_REQUESTS, 'cu"rsor', 100), Want("octo/web", PULL_REQUESTS)]
QUERIES = {
    "items": items_query(REFS)[0],
    "items of an older server": items_query(REFS, plain=True)[0],
    "listing": listing_query(BOTH, "loop")[0],
    "listing of all": listing_query(BOTH, "")[0],
    "listing of issues": listing_query(BOTH[:1], "loop")[0],
    "listing of pull requests": listing_query(BOTH[1:], "loop")[0],
    "listing of an older server": listing_query(BOTH, "loop", plain=True)[0],
    "health": health_query(["octo/app", "octo/web"])[0],
    "health of nothing": health_query([])[0],
    "comments": comments_query(REFS[0]),
    "earlier comments": comments_query(REFS[0], 'cu"rsor'),
    "threads": threads_query([Thread(ref, kind) for ref in REFS for kind in (CONVERSATION, REVIEW)]),
    "earlier pages of threads": threads_query([Thread(REFS[0], kind, 'cu"rsor') for kind in (CONVERSATION, REVIEW)]),
    "further comments of a review": threads_query([Thread(REFS[0], INLINE, 'cu"rsor', 'PRR_"1')]),
    "a new comment": add_mutation("I_1", "body"),
    "another text for a comment": update_mutation("IC_1", "body"),
}


@pytest.fixture(scope="module")
def published(request: pytest.FixtureRequest) -> GraphQLSchema:
    """GitHub's published schema; where it cannot be had the test is skipped, but not in CI."""
    assert request.config.cache
    folder = request.config.cache.mkdir("graphql-schema") / PACKAGE.rpartition("@")[2]
    file = folder / "schema.graphql"
    if not file.exists() and (why := _download(folder)):
        if os.environ.get("CI") == "true":
            pytest.fail(f"{PACKAGE} is needed in CI: {why}")
        pytest.skip(f"{PACKAGE} cannot be had: {why}")
    return build_schema(file.read_text(encoding="utf-8"), assume_valid=True)


def _download(folder: Path) -> str:
    """Fetch the schema; returns why not, or ""."""
    npm = shutil.which("npm")
    if npm is None:
        return "there is no npm here"
    folder.mkdir(parents=True, exist_ok=True)
    argv = [npm, "pack", PACKAGE, "--silent", "--ignore-scripts"]
    try:
        done = subprocess.run(argv, cwd=folder, env=_ENVIRON, capture_output=True, text=True, timeout=120, check=False)
    except subprocess.TimeoutExpired:
        return "npm did not answer within 120 s"
    packed = next(folder.glob("*.tgz"), None)
    if done.returncode or packed is None:
        return (done.stderr.strip().splitlines() or ["npm failed"])[-1]
    with tarfile.open(packed) as archive:
        member = archive.extractfile("package/schema.graphql")
        assert member
        whole = folder / "schema.part"
        whole.write_bytes(member.read())
    whole.rename(folder / "schema.graphql")
    packed.unlink()
    return ""


@pytest.mark.parametrize("name", QUERIES)
def test_every_query_is_valid_at_github(published: GraphQLSchema, name: str) -> None:
    assert [error.message for error in validate(published, parse(QUERIES[name].text))] == []


def test_a_misspelt_query_is_found(published: GraphQLSchema) -> None:
    text = QUERIES["items"].text
    assert validate(published, parse(text.replace("stateReason", "stateReasn")))
    assert validate(published, parse(text.replace("CONVERTED_TO_DISCUSSION_EVENT", "CONVERTED")))


def test_the_fake_knows_nothing_that_github_does_not(published: GraphQLSchema) -> None:
    # IssueStateReason is a scalar in the fake, so that a test can answer with a reason that does not exist yet.
    own = {name: kind for name, kind in fake_schema().type_map.items() if not name.startswith("__")}
    problems = [
        problem
        for name, kind in own.items()
        if name != "IssueStateReason"
        for problem in _beyond(name, kind, published)
    ]
    assert problems == []


def _beyond(name: str, kind: object, published: GraphQLSchema) -> list[str]:
    real = published.type_map.get(name)
    if real is None:
        return [f"there is no type {name}"]
    if isinstance(kind, GraphQLEnumType) and isinstance(real, GraphQLEnumType):
        return [f"{name}.{value}" for value in kind.values if value not in real.values]
    if isinstance(kind, GraphQLUnionType) and isinstance(real, GraphQLUnionType):
        return [f"{name}: {t.name}" for t in kind.types if t.name not in {r.name for r in real.types}]
    objects = (GraphQLObjectType, GraphQLInterfaceType, GraphQLInputObjectType)
    if not (isinstance(kind, objects) and isinstance(real, objects)):
        return []
    problems = []
    for field, mine in kind.fields.items():
        theirs = real.fields.get(field)
        if theirs is None or str(theirs.type) != str(mine.type):
            problems.append(f"{name}.{field}: {mine.type}, not {theirs and theirs.type}")
            continue
        for argument, given in getattr(mine, "args", {}).items():
            known = theirs.args.get(argument)
            if known is None or str(known.type).rstrip("!") != str(given.type).rstrip("!"):
                problems.append(f"{name}.{field}({argument}: {given.type}), not {known and known.type}")
    return problems

"""All deliberate mistakes."""

from __future__ import annotations

from tests.mutants.ending import ENDING
from tests.mutants.hostile import HOSTILE
from tests.mutants.looking import LOOKING
from tests.mutants.starting import STARTING
from tests.mutants.state import STATE
from tests.mutants.talking import TALKING

MUTANTS = (*LOOKING, *ENDING, *STARTING, *STATE, *TALKING, *HOSTILE)

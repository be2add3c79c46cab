# Every target sets up what it needs: the environment in .venv, tmux and gh. See .ci/setup.
# Kept to GNU Make 3.81 and a POSIX shell. All paths are relative, so the folder's own path may contain spaces.

PY := .venv/bin/python
# One more than there are cores, since tests wait for programs much of the time; four at most.
WORKERS := $(shell cores=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1); [ "$$cores" -lt 4 ] && echo $$((cores + 1)) || echo 4)
ARGS :=
# How many inputs make fuzz tries for each reader, how many random worlds make worlds, and how long make stress goes on.
EXAMPLES := 5000
WORLDS := 5000
SECONDS := 300
# An interpreter to build .venv with; found by itself when empty.
PYTHON :=

# What a shell in tmux, a CI job or another virtual environment would leak into the programs that are started here.
unexport $(filter TMUX TMUX_% GH_% GITHUB_% LOOPCTL_% VIRTUAL_ENV PYTHONPATH PYTHONHOME PYTHONSTARTUP \
	PIP_USER PIP_TARGET PIP_PREFIX,$(.VARIABLES))

.PHONY: help demo test test-agents check test-tmux-matrix test-gh-matrix bench fuzz faults worlds stress mutants coverage golden docs clean setup-run setup-dev
.DEFAULT_GOAL := help

help:
	@echo "make demo     three agents in a scratch world: plan, apply, look, clean up; ARGS=--full: one session's whole life"
	@echo "make test     all tests; ARGS='-k close' goes to pytest"
	@echo "make test-agents  the real Claude Code, Codex and Gemini CLIs from npm, without an account, started and ended"
	@echo "make check    lint, format, types, import contracts, playbooks and schemas"
	@echo "make test-tmux-matrix   the tests that drive tmux, on every version that can be built or fetched; test-gh-matrix: of gh"
	@echo "make bench    the benchmarks, as ratios"
	@echo "make fuzz     hostile input for everything that reads: EXAMPLES=5000 for each, counted in build/figures/fuzz.json"
	@echo "make faults   every fault at every call of everything that loopctl does, and signals around every run of tmux; counted too"
	@echo "make worlds   random worlds, step by step: WORLDS=5000 of fakes, and a fiftieth of real panes; counted too"
	@echo "make stress   many loopctls at once on one state folder for SECONDS=300; counted too"
	@echo "make mutants  deliberate mistakes, each of which the tests must see; ARGS=WORDS makes those with these words in their name"
	@echo "make coverage which branches of executor, planner and adapters the tests reach; fails under 95 %"
	@echo "make golden   rewrite the expected plans of tests/cases (then read the diff)"
	@echo "make docs     rewrite the generated parts of the documentation, and what its commands print (then read the diff)"
	@echo "make clean    remove what these made, .venv too"
	@echo "Each sets up what it needs first. PYTHON=python3.12 chooses the interpreter."

setup-run setup-dev:
	@PYTHON="$(PYTHON)" sh .ci/setup $(@:setup-%=%)

demo: setup-run
	@.venv/bin/loopctl demo $(ARGS)

# The gh from PyPI comes last on PATH: the machine's own, where there is one, is what users have.
test: setup-dev
	@PATH="$$PATH:$$PWD/.venv/bin" $(PY) -m pytest -n $(WORKERS) --dist worksteal $(ARGS)

# It needs npm's registry the first time; not a part of CI.
test-agents: setup-dev
	@path=$$(sh .ci/agents) && REAL_AGENTS="$$path" $(PY) -m pytest tests/agents -m real_agents -v $(ARGS)

check: setup-dev
	@sh .ci/check

# Built once, in the user's cache folder. ARGS="--version 3.5a --suite tests/tmux" does less.
test-tmux-matrix test-gh-matrix: setup-dev
	@$(PY) -m tests.matrix $(patsubst test-%-matrix,%,$@) $(ARGS)

bench: setup-dev
	@PATH="$$PATH:$$PWD/.venv/bin" $(PY) -m pytest tests/bench -m bench -s $(ARGS)

fuzz: setup-dev
	@FUZZ_EXAMPLES=$(EXAMPLES) FUZZ_REPORT=build/figures/fuzz.json $(PY) -m pytest tests/fuzz -k hostile -n $(WORKERS) \
		--dist worksteal $(ARGS)

# In a copy of the tree. It takes some seconds for each.
faults: setup-dev
	@FAULTS_REPORT=build/figures/faults.json $(PY) -m pytest tests/faults tests/e2e/test_crash.py -n $(WORKERS) \
		--dist worksteal $(ARGS)

worlds: setup-dev
	@WORLDS=$(WORLDS) WORLDS_REPORT=build/figures/worlds.json $(PY) -m pytest -n 2 tests/properties/test_machine.py \
		tests/tmux/test_machine.py $(ARGS)

stress: setup-dev
	@STRESS_SECONDS=$(SECONDS) STRESS_REPORT=build/figures/stress.json $(PY) -m pytest tests/e2e/test_stress.py $(ARGS)

mutants: setup-dev
	@PATH="$$PATH:$$PWD/.venv/bin" $(PY) -m tests.mutants $(ARGS)

coverage: setup-dev
	@PATH="$$PATH:$$PWD/.venv/bin" $(PY) -m tests.coverage $(ARGS)

golden: setup-dev
	@$(PY) -m pytest tests/unit/test_cases.py --golden $(ARGS)

docs: setup-dev
	@PATH="$$PATH:$$PWD/.venv/bin" $(PY) -m tests.docs.generate --play

clean:
	@rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage htmlcov
	@find loopctl tests -name __pycache__ -type d -prune -exec rm -rf {} +

# The front door. Every target sets up what it needs, in .venv and nowhere else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
MODEL := .venv-model
MODEL_READY := $(MODEL)/.ready
SITE := .venv-site
SITE_READY := $(SITE)/.ready
SEED := $(or $(SEED),$(shell date +%s))

# What is compiled once is read by the thousand processes that the tests start.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all soak test-model check types lint bench docs docs-site changelog dist lock node strace chromium shells compiler clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

$(READY): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "TraceForge needs Python 3.11 or newer: make $(MAKECMDGOALS) PYTHON=python3.11"; exit 2; }
	@echo "Setting up $(VENV): about a minute, once"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@# Half of the pins each, on two cores: 22 s instead of 37 s, most of which pip reads the index.
	@awk '/^[a-z]/ { n++ } { print > ("$(VENV)/pins" n % 2) }' requirements/dev.txt
	@printf '%s\n' 0 1 | xargs -P 2 -I{} $(BIN)/python -m pip install -qq --disable-pip-version-check --no-compile --no-deps --require-hashes -r $(VENV)/pins{}
	@$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true  # On every core, where pip takes one; templates do not compile.
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation -e .
	@$(BIN)/python -m pip check -qq --disable-pip-version-check  # The lock is complete.
	@touch $@

setup: $(READY) ## Create .venv; the command is then .venv/bin/traceforge
	@:

node: # The tests ask Node.js what JavaScript does. It comes from Debian's packages.
	@command -v node >/dev/null || { \
	  if command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then apt-get update -qq && apt-get install -qqy nodejs; \
	  else echo "The tests need Node.js: sudo apt-get install nodejs"; exit 2; fi; }

strace: # The tests of the chat look at every write of a process. It comes from Debian's packages.
	@command -v strace >/dev/null || { \
	  if command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then apt-get update -qq && apt-get install -qqy strace; \
	  else echo "The tests need strace: sudo apt-get install strace"; exit 2; fi; }

chromium: # The tests of the page open it in a browser. It comes from Debian's packages.
	@command -v chromium >/dev/null || { \
	  if command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then apt-get update -qq && apt-get install -qqy --no-install-recommends chromium; \
	  else echo "The tests need Chromium: sudo apt-get install chromium"; exit 2; fi; }

shells: # The tests press Tab in each shell that has a completion. They come from Debian's packages.
	@{ command -v zsh && command -v fish; } >/dev/null || { \
	  if command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then apt-get update -qq && apt-get install -qqy --no-install-recommends zsh fish; \
	  else echo "The tests need zsh and fish: sudo apt-get install zsh fish"; exit 2; fi; }

compiler: # llama.cpp is compiled where it runs. What that takes comes from Debian's packages.
	@if ! command -v cmake >/dev/null || ! command -v c++ >/dev/null; then \
	  if command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then apt-get update -qq && apt-get install -qqy cmake g++; \
	  else echo "A real model needs CMake and a C++ compiler: sudo apt-get install cmake g++"; exit 2; fi; fi

# Pinned tools first, then the source of llama.cpp, which is built with them and fetches nothing.
$(MODEL_READY): requirements/model.txt requirements/model-build.txt | $(READY)
	@$(MAKE) --no-print-directory compiler
	@test -x $(MODEL)/bin/python || $(PYTHON) -m venv $(MODEL)
	@echo "Compiling llama.cpp into $(MODEL): five to fifteen minutes, once"
	@$(MODEL)/bin/python -m pip install -qq --disable-pip-version-check --require-hashes -r requirements/model-build.txt
	@CMAKE_ARGS="-DLLAVA_BUILD=OFF $(CMAKE_ARGS)" CMAKE_BUILD_PARALLEL_LEVEL=$${CMAKE_BUILD_PARALLEL_LEVEL:-2} nice -n 10 \
	  $(MODEL)/bin/python -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation --require-hashes -r requirements/model.txt
	@touch $@

demo: setup ## See the main job end to end: record, approve, test offline, change a prompt, see it caught
	@$(BIN)/python examples/demo.py

check: setup ## Lint, types, import contract, generated docs
	@$(MAKE) --no-print-directory -j 2 types lint

types:
	@$(BIN)/mypy

lint:
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/python tools/generate.py --check

# Three test processes on two cores: a third of the time they wait for the processes that they start.
test: setup node strace chromium check ## Everything that must be green before a change lands
	@$(BIN)/python -m pytest -q -n 3 --dist worksteal -m "not slow and not soak and not model"

# Four, because its longest tests wait for the processes of others.
test-all: setup node strace chromium shells check ## Every guarantee, in at most an hour: before a release, and before a part is done
	@$(BIN)/python -m pytest -q -n 4 --dist worksteal -o faulthandler_timeout=1800 -m "not soak and not model"

soak: setup node strace chromium ## Fuzzers, and load that lasts: hours
	@echo "make soak SEED=$(SEED) repeats this run"
	@SEED=$(SEED) $(BIN)/python -m pytest -q -n 2 --dist worksteal -o faulthandler_timeout=0 -m "soak or fuzz"

test-model: setup $(MODEL_READY) ## A real model: compile llama.cpp, then record, approve, test and check it live
	@$(BIN)/python -m pytest -q -o faulthandler_timeout=0 -m model tests/model

bench: setup node ## Measure against peers in the same run; prints ratios
	@$(BIN)/python benchmarks/run.py

docs: setup ## Rewrite the generated parts of docs/ and the packaged schemas
	@$(BIN)/python tools/generate.py

pictures: setup chromium ## Draw docs/images from real runs; look at them before you keep them
	@$(BIN)/python tools/pictures.py
	@$(BIN)/python tools/web_pictures.py

# Zensical has dependencies of its own, which no test and no user needs.
$(SITE_READY): requirements/site.txt
	@test -x $(SITE)/bin/python || $(PYTHON) -m venv $(SITE)
	@$(SITE)/bin/python -m pip install -qq --disable-pip-version-check --no-deps --require-hashes -r requirements/site.txt
	@touch $@

docs-site: $(SITE_READY) ## Build the documentation site into build/site; open build/site/index.html
	@$(SITE)/bin/python tools/site.py

changelog: setup ## Write the newest section of CHANGELOG.md from the fragments in changelog.d
	@$(BIN)/python tools/changelog.py

dist: setup ## Build the wheel and the source archive into dist/
	@rm -rf dist && $(BIN)/python -m build --no-isolation --outdir dist . >/dev/null && ls dist

lock: ## Pin every dependency with its hashes (needs uv)
	@uv pip compile --universal --python-version 3.11 --generate-hashes --quiet --upgrade \
	  --custom-compile-command "make lock" --group dev --extra serve --extra ui -o requirements/dev.txt pyproject.toml
	@for one in apps aws dialects litellm mcp ray vcr cassetter recorders cassette-projects escapes tox pytest7 blockbuster model-build packaging site urllib3-1; do uv pip compile --universal --python-version 3.11 --generate-hashes --quiet --upgrade \
	  --custom-compile-command "make lock" -o requirements/$$one.txt requirements/$$one.in; done
	@uv pip compile --universal --python-version 3.11 --generate-hashes --quiet --upgrade --custom-compile-command "make lock" \
	  --excludes requirements/model-without.txt -o requirements/model.txt requirements/model.in

clean: ## Remove .venv, .venv-model, .venv-site and everything built
	@rm -rf $(VENV) $(MODEL) $(SITE) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis

# Type `make` for the list of targets. Each one installs what it needs into .venv, so Python 3.11 or
# newer and make are enough to start. For another interpreter: `make PYTHON=python3.13 test`.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# A clone of https://github.com/slds-lmu/yahpo_data, for the benchmarks that read it.
YAHPO_DATA ?= $(wildcard ../shared/yahpo_data)

# The interpreters of test-lowest and test-newest.
OLDEST ?= $(shell $(PYTHON) tools/interpreters.py oldest)
NEWEST ?= $(shell $(PYTHON) tools/interpreters.py newest)
LIGHT := -m "not heavy and not soak"
# One more than the two cores that we expect: many tests wait for processes.
PARALLEL := -n 3 --dist worksteal
# Most of the tests write studies and wait for fsync: in memory, if there is room, that takes no time.
# `make test-all` and `make soak` run on the disk.
MEMORY := $(shell [ "$$(df -k --output=avail /dev/shm 2>/dev/null | tail -n 1)" -gt 4000000 ] 2>/dev/null && echo /dev/shm)
IN_MEMORY := $(if $(MEMORY),tmp=$$(mktemp -d $(MEMORY)/deepband-XXXXXX) && trap 'rm -rf "$$tmp"' EXIT && TMPDIR="$$tmp")
ISSUE_FORMS := $(filter-out %/config.yml,$(wildcard .github/ISSUE_TEMPLATE/*.yml))

# Tests start hundreds of processes, and each would compile the package again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo setup hooks test test-all test-lowest test-newest soak
.PHONY: check check-files format docs bench clean

# The list is made of the comments behind the targets, in the order of this file.
help: ## List the targets (the default)
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s  %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

demo: .venv/demo ## Tune a small model, deepen the search and compare: half a minute
	$(BIN)/deepband demo

setup: .venv/check ## Install the package in editable mode, with what the tests and checks need

hooks: .venv/check ## Run the checks on every commit from now on (pre-commit)
	$(BIN)/pre-commit install

test: .venv/test ## Run the tests, or some of them: make test ARGS="-k schedule"
	$(IN_MEMORY) $(BIN)/python -m pytest $(LIGHT) $(PARALLEL) $(ARGS)

# Property-based tests run a second time here, with ten times as many random inputs.
test-all: test .venv/test-all .venv-peers/made ## Run the heavy tests too: clusters, a browser, other tuners
	HYPOTHESIS_PROFILE=thorough $(BIN)/python -m pytest -m "(heavy or hypothesis) and not soak" $(PARALLEL)

# Old packages run here with newer versions of their own dependencies, and warn about it. We cannot
# fix those warnings, so they are ignored.
test-lowest: .venv-lowest/made ## Run the tests with the lowest supported version of every dependency
	$(IN_MEMORY) .venv-lowest/bin/python -m pytest $(LIGHT) $(PARALLEL) -W ignore::DeprecationWarning -W ignore::FutureWarning

test-newest: ## Run the tests on the newest installed Python, or NEWEST=python3.13
	@if $(NEWEST) -c 'import sys; sys.exit(sys.version_info[:2] > ($(shell $(PYTHON) -c 'import sys; print(*sys.version_info[:2], sep=", ")')))'; then \
		echo "$(NEWEST) is not newer than the $(PYTHON) that \`make test\` uses: nothing more to test."; \
	else \
		[ "$$(.venv-newest/bin/python -V 2>&1)" = "$$($(NEWEST) -V)" ] || rm -rf .venv-newest; \
		$(MAKE) .venv-newest/made && $(IN_MEMORY) .venv-newest/bin/python -m pytest $(LIGHT) $(PARALLEL); \
	fi

# DEEPBAND_SOAK_LOG=FILE appends the progress to a file after every study; DEEPBAND_SOAK_KILLS sets
# the number of kills.
soak: .venv/test ## Kill processes ten thousand times and check every study: hours
	$(BIN)/python -m pytest -m soak

check: .venv/check docs check-files ## Lint, check types, build the docs, validate the files of GitHub
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# GitHub reads these files only after a push, so mistakes would be found late. The schemas are part of
# check-jsonschema: nothing is downloaded.
check-files: .venv/check ## Validate workflows, issue forms, hooks and CITATION.cff
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-forms $(ISSUE_FORMS)
	$(BIN)/check-jsonschema --builtin-schema vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(BIN)/check-jsonschema --default-filetype yaml --builtin-schema vendor.citation-file-format CITATION.cff
	$(BIN)/pre-commit validate-config

format: .venv/check ## Format the code and apply the automatic fixes of the linter
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Warnings are errors: a dead link fails the build.
docs: .venv/check ## Build the documentation: build/docs/index.html
	$(BIN)/sphinx-build -W -E --keep-going -q -b html docs build/docs

bench: .venv/bench ## Run the benchmarks and print their tables
	$(BIN)/python bench/core.py
	$(BIN)/python bench/durable.py
	$(BIN)/python bench/leases.py
	$(BIN)/python bench/workers.py
	$(BIN)/python bench/machines.py
	$(BIN)/python bench/scale.py
	$(BIN)/python bench/faces.py
	$(BIN)/python bench/samplers.py
	$(BIN)/python bench/gpu.py
	YAHPO_DATA=$(YAHPO_DATA) $(BIN)/python bench/auto.py
	YAHPO_DATA=$(YAHPO_DATA) $(BIN)/python bench/objectives.py --most 6
	YAHPO_DATA=$(YAHPO_DATA) $(BIN)/python bench/paper.py
	YAHPO_DATA=$(YAHPO_DATA) $(BIN)/python bench/learning_curves.py

clean: ## Remove the environments, caches and build results
	rm -rf .venv .venv-peers .venv-lowest .venv-newest build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

# One stamp file per set of extras. Editing pyproject.toml makes them out of date.
.venv/made:
	$(PYTHON) -m venv .venv
	touch $@

.venv/demo: .venv/made pyproject.toml
	$(INSTALL) -e '.[demo]'
	touch $@

.venv/bench: .venv/made pyproject.toml
	$(INSTALL) -e '.[bench]'
	touch $@

.venv/test: .venv/made pyproject.toml
	$(INSTALL) -e '.[test]'
	touch $@

.venv/test-all: .venv/made pyproject.toml
	$(INSTALL) -e '.[test,dask,ray,slurm,pools,optuna-dashboard,trackers,peers,examples,recipes]'
	touch $@

.venv/check: .venv/made pyproject.toml
	$(INSTALL) -e '.[test,check]'
	touch $@ .venv/test

.venv-lowest/made: .venv/test tools/lowest.py pyproject.toml
	$(OLDEST) -m venv --clear .venv-lowest
	$(BIN)/python tools/lowest.py test > .venv-lowest/constraints.txt
	.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check -c .venv-lowest/constraints.txt -e '.[test]'
	touch $@

.venv-newest/made: pyproject.toml
	$(NEWEST) -m venv --clear .venv-newest
	.venv-newest/bin/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	touch $@

# Other tuners that need an older NumPy than deepband. HpBandSter is installed without its
# dependencies: it lists netifaces, which would have to be compiled and is not used here.
.venv-peers/made: docs/moving/requirements.txt
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check --no-deps hpbandster==0.7.4
	touch $@

# `make demo` and `make test` do everything on a machine with Python 3.11 and make.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# A clone of https://github.com/slds-lmu/yahpo_data
YAHPO_DATA ?= $(wildcard ../shared/yahpo_data)

# For test-lowest and test-newest: the interpreters to test with.
OLDEST ?= $(shell $(PYTHON) tools/interpreters.py oldest)
NEWEST ?= $(shell $(PYTHON) tools/interpreters.py newest)
LIGHT := -m "not heavy and not soak"
PARALLEL := -n 2 --dist loadfile

.PHONY: demo test test-all test-lowest test-newest soak check docs bench clean

demo: .venv/demo
	$(BIN)/deepband demo

test: .venv/test
	$(BIN)/python -m pytest $(LIGHT) $(PARALLEL)

# `make test`, then all that it leaves out, and the laws again over many more random inputs.
test-all: test .venv/test-all .venv-peers/made
	HYPOTHESIS_PROFILE=thorough $(BIN)/python -m pytest -m "(heavy or hypothesis) and not soak" $(PARALLEL)

# `make test` with the lowest version of every dependency that pyproject.toml declares. Their
# deprecation warnings are not ours to fix: old packages meet new versions of what they depend on.
test-lowest: .venv-lowest/made
	.venv-lowest/bin/python -m pytest $(LIGHT) $(PARALLEL) -W ignore::DeprecationWarning -W ignore::FutureWarning

# `make test` on the newest Python that is installed, or on a given one: make test-newest NEWEST=python3.13
test-newest:
	@if $(NEWEST) -c 'import sys; sys.exit(sys.version_info[:2] > ($(shell $(PYTHON) -c 'import sys; print(*sys.version_info[:2], sep=", ")')))'; then \
		echo "$(NEWEST) is not newer than the $(PYTHON) that \`make test\` uses: nothing more to test."; \
	else \
		[ "$$(.venv-newest/bin/python -V 2>&1)" = "$$($(NEWEST) -V)" ] || rm -rf .venv-newest; \
		$(MAKE) .venv-newest/made && .venv-newest/bin/python -m pytest $(LIGHT) $(PARALLEL); \
	fi

# Ten thousand kills: hours. With DEEPBAND_SOAK_LOG=FILE what has been reached is appended to a file
# after every study, and DEEPBAND_SOAK_KILLS sets another number.
soak: .venv/test
	$(BIN)/python -m pytest -m soak

check: .venv/check docs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# A warning, such as a dead link, is an error. Then open build/docs/index.html.
docs: .venv/check
	$(BIN)/sphinx-build -W -E --keep-going -q -b html docs build/docs

bench: .venv/bench
	$(BIN)/python bench/core.py
	$(BIN)/python bench/durable.py
	$(BIN)/python bench/workers.py
	$(BIN)/python bench/machines.py
	$(BIN)/python bench/faces.py
	$(BIN)/python bench/samplers.py
	YAHPO_DATA=$(YAHPO_DATA) $(BIN)/python bench/auto.py
	YAHPO_DATA=$(YAHPO_DATA) $(BIN)/python bench/paper.py

clean:
	rm -rf .venv .venv-peers .venv-lowest .venv-newest build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

# One stamp a set of extras: made again when the project's dependencies change.
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
	$(INSTALL) -e '.[test,dask,ray,optuna-dashboard,trackers,peers,examples,recipes]'
	touch $@

.venv/check: .venv/made pyproject.toml
	$(INSTALL) -e '.[test,check]'
	touch $@

.venv-lowest/made: .venv/test tools/lowest.py pyproject.toml
	$(OLDEST) -m venv --clear .venv-lowest
	$(BIN)/python tools/lowest.py test > .venv-lowest/constraints.txt
	.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check -c .venv-lowest/constraints.txt -e '.[test]'
	touch $@

.venv-newest/made: pyproject.toml
	$(NEWEST) -m venv --clear .venv-newest
	.venv-newest/bin/python -m pip install --quiet --disable-pip-version-check -e '.[test]'
	touch $@

# Peers that want an older NumPy than ours. HpBandSter names netifaces, which must be compiled and
# is not needed here: it goes without what it names.
.venv-peers/made: docs/moving/requirements.txt
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check --no-deps hpbandster==0.7.4
	touch $@

# `make demo` and `make test` do everything on a machine with Python 3.11 and make.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# A clone of https://github.com/slds-lmu/yahpo_data
YAHPO_DATA ?= $(wildcard ../shared/yahpo_data)

.PHONY: demo test test-all soak check docs bench clean

demo: .venv/demo
	$(BIN)/deepband demo

test: .venv/test
	$(BIN)/python -m pytest -m "not heavy and not soak"

# `make test`, then all that it leaves out, and the laws again over many more random inputs.
test-all: test .venv/test-all .venv-peers/made
	HYPOTHESIS_PROFILE=thorough $(BIN)/python -m pytest -m "(heavy or hypothesis) and not soak"

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
	rm -rf .venv .venv-peers build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

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

# Peers that want an older NumPy than ours. HpBandSter names netifaces, which must be compiled and
# is not needed here: it goes without what it names.
.venv-peers/made: docs/moving/requirements.txt
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check --no-deps hpbandster==0.7.4
	touch $@

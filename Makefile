# make up            index, watch and serve a working copy of examples/vault
# make up VAULT=~/notes   the same for your own vault
# make test, quick (without models, processes and browsers), lint, bench, install
# make coverage       how much of the code the tests run; takes twice as long as they do
# make docs           build the documentation into build/site
# make release        the packages, a bill of materials and their hashes, in dist

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/pytest
VAULT ?= demo-vault
PORT ?=

.PHONY: up install dev test quick coverage lint bench docs release clean
.DEFAULT_GOAL := up

# On Linux, PyPI's build of torch brings 3 GB for NVIDIA's GPUs. Without one, PyTorch's own index is asked for the build
# for CPUs, once and for that package alone; where it cannot be reached, pip takes PyPI's below.
CPU_TORCH := https://download.pytorch.org/whl/cpu

# pip compiles what it installs, but not what it leaves where it is: each start would, where Python may not keep it.
$(VENV)/installed: pyproject.toml
	@echo "Installing into $(VENV) (1.5 to 5 GB, some minutes the first time) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --upgrade 'pip>=25.1'
	@[ "$$(uname)" != Linux ] || command -v nvidia-smi >/dev/null || $(BIN)/pip install --quiet --no-deps --retries 0 \
	  --timeout 5 --index-url $(CPU_TORCH) "$$(grep -o 'torch==[0-9.]*' pyproject.toml)" >/dev/null 2>&1 || true
	@$(BIN)/pip install --quiet --editable '.[all]'
	@$(BIN)/python -m compileall -q everindex service workers pipelines queue_config
	@touch $@

$(VENV)/dev: $(VENV)/installed
	@$(BIN)/pip install --quiet --group dev
	@touch $@

install: $(VENV)/installed

dev: $(VENV)/dev

demo-vault:
	@cp -R examples/vault demo-vault

up: install $(if $(filter demo-vault,$(VAULT)),demo-vault)
	@exec $(BIN)/everindex up $(VAULT) $(if $(PORT),--port $(PORT))

# Each process collects all tests: what Python compiled for one run is kept for the next, whatever the shell says.
test quick coverage: export PYTHONDONTWRITEBYTECODE :=

# Many tests wait for processes, so two cores have time for a third file.
test: dev
	$(PYTEST) --numprocesses 3 --dist loadfile --no-loadscope-reorder --durations 30

quick: dev
	$(PYTEST) --numprocesses 2 --dist loadfile --no-loadscope-reorder -m "not slow"

coverage: dev
	@rm -rf build/coverage && mkdir -p build/coverage
	$(BIN)/coverage run -m pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder $(TESTS)
	@$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --skip-covered

lint: dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: dev
	$(BIN)/python -m benchmarks

# 120 MB that only this needs. Pages link to files beside docs/, so the site is built from a copy of both.
$(VENV)/docs: $(VENV)/installed
	@$(BIN)/pip install --quiet --group docs
	@touch $@

docs: $(VENV)/docs
	@rm -rf build/pages && mkdir -p build/pages
	@cp -R docs *.md LICENSE build/pages && rm -r build/pages/docs/notes build/pages/docs/howto
	$(BIN)/zensical build --strict --clean

build/release: pyproject.toml
	@$(PYTHON) -m venv $@
	@$@/bin/pip install --quiet --upgrade 'pip>=25.1'
	@$@/bin/pip install --quiet --group release
	@touch $@

# The bill lists what the lock file pins, which is what the image holds. Neither it nor the packages tell the time.
release: build/release
	@rm -rf dist
	@build/release/bin/python -m build --outdir dist . >build/release/log || { cat build/release/log; exit 1; }
	@build/release/bin/cyclonedx-py requirements deploy/requirements.lock --pyproject pyproject.toml \
	  --output-reproducible --output-file dist/$$(basename dist/*.tar.gz .tar.gz).cdx.json
	@cd dist && sha256sum * >SHA256SUMS && cat SHA256SUMS

clean:
	rm -rf $(VENV) demo-vault build dist

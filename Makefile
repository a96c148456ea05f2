# trajmill: raw interaction logs to training shards. `make help` lists the targets.

DOMAINS := mcp search terminal swe web os android
DOMAIN ?= android
RAW ?= $(if $(filter all world-model,$(DOMAIN)),$(addprefix samples/,$(DOMAINS)),samples/$(DOMAIN))
OUT ?= out/$(DOMAIN)
RUNNER ?= local
ENGINES ?= here
ARGS ?=
EXTRAS ?=
TOKENIZER ?= out/tokenizer/qwen2_5
CONSUMER ?=
TABLE ?= docs/consumers.md
PYTHON ?= python3

CODE := trajmill schemas connectors quality pipelines worlds synthesis app
BIN := .venv/bin
UV := $(shell command -v uv || echo .venv/uv/bin/uv)

.DEFAULT_GOAL := help
.PHONY: help install shards test coverage mutants lint bench engines dataflow fuzz stores screens worlds worlds-replay worlds-drift worlds-serve worlds-loops loop docs consumers croissant lock samples clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20
	@echo
	@echo "  make shards DOMAIN=android RAW=path-or-glob OUT=folder RUNNER=flink ARGS='--limit 10'"

.venv/uv/bin/uv:
	$(PYTHON) -m venv .venv/uv
	.venv/uv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt

.venv/bin/python: | $(filter .venv/%,$(UV))
	$(UV) venv --quiet --allow-existing --python $(PYTHON) .venv

.venv/installed: requirements/runtime.txt pyproject.toml | .venv/bin/python
	$(UV) pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes -r requirements/runtime.txt
	$(UV) pip install --quiet --compile-bytecode --python $(BIN)/python --no-deps --no-build-isolation --editable .
	$(BIN)/python -m compileall -q $(CODE)
	@touch $@

.venv/developing: requirements/dev.txt .venv/installed
	$(UV) pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes -r requirements/dev.txt
	@touch $@

install: .venv/installed ## set up .venv with the trajmill command, and what extras need: EXTRAS=llm,s3
	$(if $(EXTRAS),$(UV) pip install --quiet --python $(BIN)/python --no-build-isolation --editable '.[$(EXTRAS)]' \
		--constraint requirements/all.txt)

shards: .venv/installed ## make shards of DOMAIN (or all, or world-model) from RAW (default: the samples) into OUT
	$(BIN)/trajmill run configs/$(DOMAIN).yaml --raw $(RAW) --out $(OUT) --runner $(RUNNER) $(ARGS)

lint: .venv/developing ## check style, types and who imports whom
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports

# Pytest compiles every module's assertions anew to tell their values, in each process: only what failed is asked once more
# for that, and is a failure whatever comes of it.
test: export PYTHONDONTWRITEBYTECODE =
test: .venv/developing ## run all tests
	@$(BIN)/pytest -n 2 --dist loadfile --assert=plain $(ARGS); tests=$$?; \
	[ $$tests != 1 ] || $(BIN)/pytest --last-failed $(ARGS); \
	exit $$tests

coverage: .venv/developing ## run all tests, and say how many lines of each package they reach
	TRAJMILL_COVERAGE=1 $(BIN)/pytest -n 2 --dist loadfile --assert=plain $(ARGS)

.venv/mutants/installed: requirements/mutants.txt | $(filter .venv/%,$(UV))
	$(UV) venv --quiet --allow-existing --python $(PYTHON) .venv/mutants
	$(UV) pip install --quiet --python .venv/mutants/bin/python --require-hashes -r requirements/mutants.txt
	@touch $@

mutants: .venv/mutants/installed .venv/developing ## try 300 one-line changes of the core against its tests (ten minutes); fails below 85 % noticed
	$(BIN)/python benchmarks/mutants.py $(ARGS)

engines: .venv/developing ## one recipe on every engine: the same bytes. What a machine lacks is told and left out, or with ENGINES=all a failure
	TRAJMILL_ENGINES=$(ENGINES) $(BIN)/pytest -v -rs tests/pipelines/execution/test_engines.py $(ARGS)

fuzz: .venv/developing ## try many more random logs on every connector, and folders of them on the command line (half an hour)
	TRAJMILL_FUZZ=80 $(BIN)/pytest -n 2 tests/connectors/test_contract.py -k "cut or damaged or arbitrary"
	TRAJMILL_FUZZ=12 $(BIN)/pytest -n 2 tests/connectors/test_hostile.py -k "another_type or nested"
	TRAJMILL_FUZZ=20 $(BIN)/pytest -n 2 tests/connectors/test_desktop.py tests/connectors/reading tests/quality/test_segments.py \
		tests/quality/test_scrub_views.py tests/quality/test_scrub_recall.py tests/quality/test_scrub_is_linear.py tests/quality/test_scrubbing_sessions_are_linear.py
	TRAJMILL_FUZZ=2 $(BIN)/pytest -n 2 tests/pipelines/execution/test_damaged_containers.py tests/pipelines/normalize/test_secrets_in_names.py \
		tests/pipelines/generations
	TRAJMILL_FUZZ=100 $(BIN)/pytest -n 2 tests/app/cli/test_fuzz_cli.py tests/app/cli/test_inspection.py

.venv/dataflow: requirements/dataflow.txt .venv/stores
	$(UV) pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes -r requirements/dataflow.txt
	@touch $@

dataflow: .venv/dataflow ## run on Dataflow as far as this machine can be it, and its image's steps, in a root of their own (some packages more)
	TRAJMILL_IMAGE=here $(BIN)/pytest tests/pipelines/execution/dataflow $(ARGS)

.venv/stores: requirements/stores.txt .venv/developing
	$(UV) pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes -r requirements/stores.txt
	@touch $@

stores: .venv/stores ## run on S3 and Google Cloud Storage, as local servers have them, that fail as stores do
	$(BIN)/pytest tests/stores $(ARGS)

.venv/axe/package/axe.min.js:
	mkdir -p .venv/axe && npm pack --silent --pack-destination .venv/axe axe-core@4.11.0 && tar -xzf .venv/axe/axe-core-4.11.0.tgz -C .venv/axe

screens: .venv/developing .venv/axe/package/axe.min.js ## view hostile logs in headless Chromium, check all pages with axe-core, take the pictures of docs/images (minutes; needs Chromium and npm)
	$(BIN)/python -m benchmarks.screens $(ARGS)

worlds: worlds-replay worlds-drift worlds-serve ## ask worlds again: replay the samples, two simulators held against a world, a served model (minutes)

worlds-replay: .venv/developing # the samples in boxes, from what they began with; needs bubblewrap
	$(BIN)/python -m benchmarks.worlds $(ARGS)

.venv/docs/installed: requirements/docs.txt | $(filter .venv/%,$(UV))
	$(UV) venv --quiet --allow-existing --python $(PYTHON) .venv/docs
	$(UV) pip install --quiet --python .venv/docs/bin/python --require-hashes -r requirements/docs.txt
	@touch $@

docs: .venv/docs/installed .venv/developing ## build the guide into out/site, every link followed; run what README and docs show; check what an index would show
	NO_MKDOCS_2_WARNING=1 .venv/docs/bin/mkdocs build --strict --quiet --site-dir out/site
	TRAJMILL_DOCS=all $(BIN)/pytest tests/test_docs.py tests/test_docs_commands.py $(ARGS)
	rm -rf out/dist && $(BIN)/python -m build --no-isolation --outdir out/dist . >/dev/null
	.venv/docs/bin/twine check --strict out/dist/*
	$(UV) tool run --from out/dist/*.whl trajmill --help >/dev/null

worlds-drift: .venv/developing # a planted world, and the drift of a faithful and of a flattering simulator of it
	$(BIN)/python -m benchmarks.planted_world out/worlds/raw/real
	$(BIN)/trajmill run terminal --raw out/worlds/raw/real --out out/worlds/real --stop-after normalize
	$(BIN)/python -m benchmarks.simulators out/worlds/real out/worlds/raw
	for name in faithful flattering; do \
		$(BIN)/trajmill run terminal --raw out/worlds/raw/$$name --out out/worlds/$$name --stop-after normalize && \
		$(BIN)/trajmill world drift out/worlds/real out/worlds/$$name --out out/worlds/drift-$$name || exit; done

bench: .venv/developing ## measure speed, memory and the search for copies, beside datatrove's
	$(BIN)/python -m benchmarks.bench $(ARGS)
	$(BIN)/python -m benchmarks.scrubbing
	$(BIN)/python -m benchmarks.signals
	$(BIN)/python -m benchmarks.near
	$(BIN)/python -m benchmarks.dedup
	$(BIN)/python -m benchmarks.judge_memory
	$(BIN)/python -m benchmarks.mixing
	$(BIN)/python -m benchmarks.viewing

worlds-serve: .venv/developing # serve a world model that knows the samples' logs, and live through all of them byte for byte (a minute)
	$(BIN)/python -m benchmarks.serving $(ARGS)

out/tokenizer/%: | .venv/developing
	PATH="$$PATH:.venv/uv/bin" $(BIN)/python -m benchmarks.published_tokenizer $@ --template $*

consumers: .venv/developing | $(TOKENIZER) ## try trainers on the shards in OUT (some GB of packages each, removed afterwards); writes docs/consumers.md
	PATH="$$PATH:.venv/uv/bin" $(BIN)/python -m tests.consumers $(OUT) --tokenizer $(TOKENIZER) --page $(TABLE) \
		$(if $(CONSUMER),--consumer $(CONSUMER))

worlds-loops: .venv/developing | $(TOKENIZER) ## have agents of verl, TRL, verifiers and Gymnasium act in a served world (GBs of packages, removed afterwards)
	PATH="$$PATH:.venv/uv/bin" $(BIN)/python -m tests.loops --tokenizer $(TOKENIZER) $(ARGS)

croissant: | $(filter .venv/%,$(UV)) ## have MLCommons' library check shards/croissant.json of OUT, and read every row by it (packages of half a GB, removed)
	folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && $(UV) venv --quiet --python 3.11 "$$folder/mlc" && \
	$(UV) pip install --quiet --python "$$folder/mlc/bin/python" mlcroissant==1.1.1 pyarrow==26.0.1 && \
	"$$folder/mlc/bin/python" tests/pipelines/publish/croissant_rows.py $(OUT)/shards

lock: | .venv/bin/python ## resolve the dependencies anew and lock them by version and hash
	$(UV) pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url \
		pyproject.toml --group build -o requirements/runtime.txt
	$(UV) pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url \
		pyproject.toml --group build --group dev -c requirements/runtime.txt -o requirements/dev.txt
	for extra in all dataflow; do $(UV) pip compile -q --universal --python-version 3.11 --generate-hashes --no-header \
		--no-emit-index-url pyproject.toml --extra $$extra -c requirements/runtime.txt -c requirements/dev.txt \
		-o requirements/$$extra.txt || exit; done
	$(UV) pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url \
		pyproject.toml --extra s3 --extra gcs --group stores -c requirements/runtime.txt -c requirements/dev.txt \
		-o requirements/stores.txt
	$(UV) pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url \
		--group docs -o requirements/docs.txt
	$(UV) pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url \
		--group mutants -o requirements/mutants.txt
	echo uv | $(UV) pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url \
		- -o requirements/uv.txt

clean: ## remove what was built
	rm -rf .venv build dist out

loop: .venv/developing ## a whole loop: a retrieval model over logs is served, an agent collects 200 rollouts, its rows are held against the world (minutes)
	PATH="$$PATH:.venv/uv/bin" $(BIN)/python -m benchmarks.loop $(ARGS)

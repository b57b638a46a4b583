# make up     everything from nothing to a running platform
# make test   everything that has to hold
SHELL := /bin/bash
.DEFAULT_GOAL := help

CACHE := $(or $(SLIPWAY_CACHE),$(HOME)/.cache/slipway)
# Outside the clone, so that a second clone does not compile the same crates again.
export CARGO_TARGET_DIR ?= $(CACHE)/target
export SLIPWAY_CACHE := $(CACHE)
NPM := npm --no-fund --no-audit --loglevel=error
DATA ?= .slipway
LISTEN ?= 127.0.0.1:8080

.PHONY: help
help: ## list what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

.PHONY: up
up: ## set up, build and start the platform with its demo
	@scripts/setup.sh run
	@$(MAKE) --no-print-directory web/dist/index.html
	cargo build --profile quick --locked --package slipway
	@$(call keep,quick)
	@exec target/quick/slipway up --data $(DATA) --listen $(LISTEN)

.PHONY: build
build: web/dist/index.html ## leave target/release/slipway
	cargo build --release --locked --package slipway
	@$(call keep,release)

# The program of a profile, in this clone; one that runs is replaced, not written over.
keep = mkdir -p target/$(1) && cp --reflink=auto $(CARGO_TARGET_DIR)/$(1)/slipway target/$(1)/slipway.new && mv -f target/$(1)/slipway.new target/$(1)/slipway

WEB_SOURCES := $(shell find web -path web/node_modules -prune -o -path web/dist -prune -o -type f -print 2>/dev/null) openapi/slipway.json

web/node_modules/.installed: web/package-lock.json
	cd web && $(NPM) ci && touch node_modules/.installed

web/dist/index.html: $(WEB_SOURCES) web/node_modules/.installed
	cd web && npm run --silent build && touch dist/index.html

.PHONY: test
test: ## formatting, lints, web checks, unit, integration, conformance, end to end
	@scripts/test.sh

.PHONY: check
check: ## lints and tests of one room, in seconds (ROOM=gitops)
	@test -n "$(ROOM)" || { echo "which room? make check ROOM=gitops" >&2; exit 2; }
	RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=--deny__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__ cargo test --quiet --locked --package slipway-$(ROOM)

.PHONY: kube-up kube-down kube-status
kube-up: ## a real Kubernetes for tests (NAME=test NODES=real|fake:N)
	@scripts/setup.sh kube
	@NAME=$(or $(NAME),test) scripts/kube.sh up --nodes $(or $(NODES),real)
kube-down: ## end it and remove all of it (NAME=test)
	@NAME=$(or $(NAME),test) scripts/kube.sh down
kube-status: ## what of it runs (NAME=test)
	@NAME=$(or $(NAME),test) scripts/kube.sh status

.PHONY: soak
soak: build ## the long proofs: many kills, at other moments each time (KILLS=200 CUTS=50 RESTARTS=50)
	SLIPWAY_KILLS=$(or $(KILLS),200) SLIPWAY_CUTS=$(or $(CUTS),50) cargo test --locked --package slipway-store --test it durability -- --nocapture
	SLIPWAY_RESTARTS=$(or $(RESTARTS),50) cargo test --locked --package slipway --test it restarts -- --nocapture
	SLIPWAY_KILLS=$(or $(KILLS),100) cargo test --locked --package slipway --test it killed_audit -- --nocapture
	SLIPWAY_TUNNEL_CUTS=1000 cargo test --locked --package slipway-tunnel --test it long::t1 -- --nocapture
	SLIPWAY_TUNNEL_CUTS=10000 cargo test --locked --package slipway-tunnel --test it long::t4 -- --nocapture
	SLIPWAY_TUNNELS=1000 SLIPWAY_TUNNEL_REQUESTS=1000000 cargo test --locked --package slipway-tunnel --test it long::t3 -- --nocapture
	SLIPWAY_TUNNEL_STALLED=1000 cargo test --locked --package slipway-tunnel --test it long::t5 -- --nocapture
	SLIPWAY_TUNNELS=100 SLIPWAY_TUNNEL_ROUNDS=1000 cargo test --locked --package slipway-tunnel --test it soak::t7 -- --nocapture
	SLIPWAY_FUZZ=5000 cargo test --locked --package slipway-tunnel --test it fuzzed::k91 -- --nocapture
	SLIPWAY_TEST_ROUNDS=6 cargo test --locked --package slipway-runner --test it crash
	SLIPWAY_TEST_KILLS=$(or $(KILLS),100) SLIPWAY_SEED=$$RANDOM cargo test --locked --package slipway-devcluster --test it kill:: -- --nocapture
	SLIPWAY_BIN=target/release/slipway SLIPWAY_KILLS=$(or $(KILLS),50) SLIPWAY_SEED=$$RANDOM node --test e2e/tests/kill.test.mjs
	SLIPWAY_BIN=target/release/slipway SLIPWAY_BUILDS=1000 SLIPWAY_BUILD_KILLS=300 SLIPWAY_PARTITION_SECONDS=300 SLIPWAY_SEED=$$RANDOM node --test e2e/tests/builds.test.mjs
	SLIPWAY_BIN=target/release/slipway node --test e2e/soak/install.test.mjs
	SLIPWAY_BIN=target/release/slipway node --test e2e/soak/codefresh-runner.test.mjs

.PHONY: bench
bench: build ## API and durable intake beside a bare handler and the disk itself; what the platform costs at rest
	cargo run --release --locked --package slipway-bench
	KUBECONFIG=$$(NAME=bench scripts/kube.sh up) node bench/idle.mjs target/release/slipway

.PHONY: oracle
oracle: build ## the GitOps engine beside upstream Argo CD (built from its Go module), and its CLI in core mode; the published validator of pipelines, the Terraform provider's acceptance tests
	@scripts/setup.sh test
	SLIPWAY_BIN=target/release/slipway SLIPWAY_MUTANTS=20000 SLIPWAY_SEED=$$RANDOM node --test e2e/tests/validator.test.mjs
	SLIPWAY_BIN=target/release/slipway node --test e2e/oracle/terraform.test.mjs
	node e2e/oracle/compare.mjs target/release/slipway $$(NAME=oracle scripts/kube.sh up) $(SCENARIOS)
	SLIPWAY_BIN=target/release/slipway KUBECONFIG=$$(NAME=oracle scripts/kube.sh up) node --test --test-concurrency=1 e2e/oracle/core.test.mjs e2e/oracle/beside.test.mjs
	SLIPWAY_RENDERINGS=$(or $(RENDERINGS),600) cargo test --locked --package slipway-source --test it alike:: -- --nocapture
	SLIPWAY_HEALTH_SCRIPTS=$$(scripts/argocd.sh source)/resource_customizations cargo test --locked --package slipway-gitops --test it health_scripts:: -- --nocapture

.PHONY: fmt
fmt: ## format everything
	cargo fmt
	cd web && npx prettier --write --log-level warn .

.PHONY: openapi
openapi: ## rewrite openapi/slipway.json from the routes
	UPDATE=1 cargo test --quiet --package slipway-server openapi

.PHONY: clean
clean: ## remove what was built here (the cache stays)
	rm -rf target web/dist web/node_modules e2e/node_modules

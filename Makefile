# `make` or `make help` lists the targets. Every target that takes Go code goes over the modules below; what runs in CI,
# and when, is in .ci/run.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Modules whose tests are part of `make test`. A test (internal/modules) compares these lists with the go.mod
# files found in the tree.
MODULES := . otelagent/otelsetup dialects backend agenttest dashboards internal/registrygen collector-exporter/agentsessionexporter cmd/otelagent examples
# Modules that hold slow tests only, each run by a target of its own; formatted, vetted and linted like the others.
E2E_MODULES := collector-exporter/distribution/e2e
# Modules that pin tools, one per tool because their requirements disagree. Never compiled by `make test`.
TOOL_MODULES := internal/tools/lint internal/tools/mdatagen internal/tools/ocb

# Examples on frameworks, which test-full runs.
FRAMEWORK_EXAMPLES := examples/adk examples/anthropic examples/eino

# Modules of instrumentation/, one a framework. Targets of their own lint and test them: no other compiles a
# framework.
INSTRUMENTATION := $(shell git ls-files -co --exclude-standard 'instrumentation/**/go.mod' | sed 's:/go.mod$$::')

ALL_MODULES := $(MODULES) $(E2E_MODULES)
BIN := $(CURDIR)/bin
GOLANGCI := $(BIN)/golangci-lint

# The race detector watches our code and all that it calls, but for SQLite's C as Go and zstd: these two took most of its time.
NOT_WATCHED := -gcflags=modernc.org/...=-race=false -gcflags=github.com/klauspost/compress/...=-race=false

# Tests that read many recordings, or run many commands, one after the other: the race detector needs concurrency, not
# data. Tests with a bound of time that it exceeds are here, too.
NOT_RACED := TestOracle|TestForeignSamples|TestGuideConformance|TestCaptureLevels|TestImportTwice|TestHostile|TestCardinality|TestCutAnywhere|TestOrderBlind|TestExportsComeBack|TestExportIsReplayEligible|TestExportedCounts|TestSentAgainAfterItGrew|TestGuideComesBack|TestContentLater|TestEveryPayloadComesBack|TestOpenRunsAreBounded|TestNestingBomb|TestImportNamesTheFileOfALine|TestImportIsPrivate|TestImportRecognises|TestImportFollow
NOT_RACED_SCRIPTS := capture|dialects|diff|export|guide|ls|read|replay|request|show|stats|status|usage

FUZZTIME ?= 2s
SOAKTIME ?= 10m
SOAKFLAGS ?= -strict
BENCH ?= .
TESTFLAGS ?=
export CGO_ENABLED ?= 0

# $(call each,MODULES,COMMAND): COMMAND with $$m set to each module in turn; stops at the first that fails.
each = for m in $(1); do echo "--- $$m: $@"; $(2); done

.PHONY: help demo build cross test test-full check race vet lint fmt fmt-check generate generate-check fuzz-short bench bench-check \
	newest instrumentation instrumentation-newest ocb-test ocb-build interop-phi-core interop-clark-agent interop-ndjson interop-acp interop-ai-sdk interop-replay interop-dashboards interop-clickhouse interop-prometheus interop-backends interop-compose interop-viewer interop-viewer-types interop-agents interop-agents-newest soak tidy ci FORCE

help: ## print this list
	@awk -F ':.*## ' '/^[a-z][a-z0-9-]*:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: ## play a recorded agent session through a real collector and print the rebuilt tree
	@echo "Building bin/otelagent. The first build compiles a collector and takes some minutes; later ones take seconds."
	@$(MAKE) --no-print-directory bin/otelagent
	@bin/otelagent demo

build: bin/otelagent ## build the otelagent binary into bin/
bin/otelagent: FORCE
	@go -C cmd/otelagent build -trimpath -ldflags '-s -w' -o $(BIN)/otelagent .

cross: ## compile the otelagent binary for macOS and Windows, on which no test runs
	@for os in darwin windows; do echo "--- $$os"; GOOS=$$os go -C cmd/otelagent build -o /dev/null .; done

test: ## run the tests of all modules in their short form: no service, no C compiler
	@$(call each,$(MODULES),go -C $$m test -short $(TESTFLAGS) ./...)

test-full: ## run the tests of all modules with every recording, every cut and the programs that they start
	@$(call each,$(MODULES),go -C $$m test -timeout 20m $(TESTFLAGS) ./...)

check: test vet fmt-check lint generate-check race fuzz-short ## run all that CI runs for every change

# $(call raced,MODULE,PACKAGES). A test (internal/modules) requires that every package that starts goroutines or has a mutex is here.
raced = echo "--- $(1): race"; $(racing)
racing = CGO_ENABLED=1 go -C $(1) test -race -vet=off -short -timeout 20m $(NOT_WATCHED) \
	-skip '^($(NOT_RACED))$$|^TestScripts$$/^($(NOT_RACED_SCRIPTS))$$' $(TESTFLAGS) $(2)

race: ## the short tests of concurrent code with the race detector (needs a C compiler)
	@$(call raced,.,./internal/writer ./instrumentation/net/http/otelllmhttp)
	@$(call raced,otelagent/otelsetup,.)
	@$(call raced,dialects,./event)
	@$(call raced,backend,./session ./store/... ./web)
	@$(call raced,agenttest,. ./adapter ./otelllmhttp ./provider)
	@$(call raced,collector-exporter/agentsessionexporter,. ./otlplimitsextension)
	@$(call raced,cmd/otelagent,.)
	@$(call raced,examples,./loop ./service)

vet: ## go vet in all modules but those of frameworks
	@$(call each,$(ALL_MODULES),go -C $$m vet ./...)

lint: $(GOLANGCI) ## golangci-lint in the same modules
	@$(call each,$(ALL_MODULES),(cd $$m && $(GOLANGCI) run ./...))

$(GOLANGCI): internal/tools/lint/go.mod
	go -C internal/tools/lint build -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

fmt: ## gofmt all Go files
	@gofmt -w $$(git ls-files -co --exclude-standard '*.go' | while read -r f; do [ ! -f "$$f" ] || echo "$$f"; done)

fmt-check: ## fail if gofmt would change a file
	@out=$$(gofmt -l $$(git ls-files -co --exclude-standard '*.go' | while read -r f; do [ ! -f "$$f" ] || echo "$$f"; done)); \
	if [ -n "$$out" ]; then echo "run make fmt; gofmt would change:"; echo "$$out"; exit 1; fi

generate: ## regenerate code and docs from registry.yaml and metadata.yaml
	@$(call each,$(MODULES),go -C $$m generate ./...)

# What is not committed yet may be there before; generating must not change anything on top of it.
generate-check: ## fail if make generate changes anything
	@state() { git diff; git ls-files -o --exclude-standard -z | xargs -0r sha256sum; }; \
	before=$$(mktemp); after=$$(mktemp); trap 'rm -f $$before $$after' EXIT; \
	state >$$before; $(MAKE) --no-print-directory generate; state >$$after; \
	if ! diff -u $$before $$after; then echo "generated files are stale: run make generate and commit"; exit 1; fi

# Before Go 1.27 a run sometimes fails with "context deadline exceeded" and nothing else as its time ends (Go issue
# 75804). Such a run, and no other, is repeated, twice at most. A package is compiled once for all its targets.
fuzz-short: ## run every fuzz target for FUZZTIME (2s)
	@n=0; bin=$$(mktemp); trap 'rm -f $$bin' EXIT; cache=$$(go env GOCACHE)/fuzz; for m in $(MODULES); do \
	  for pkg in $$(cd $$m && grep -rlE '^func Fuzz' --include='*_test.go' . 2>/dev/null | xargs -r dirname | sort -u); do \
	    (cd $$m && d=$$PWD && cd $$pkg && while [ ! -f go.mod ]; do cd ..; done && [ "$$PWD" = "$$d" ]) || continue; \
	    go -C $$m test -c -fuzz . -o $$bin $$pkg; \
	    for f in $$(cd $$m/$$pkg && $$bin -test.list '^Fuzz'); do \
	      echo "--- $$m/$$pkg: $$f for $(FUZZTIME)"; n=$$((n+1)); \
	      for try in 1 2 3; do \
	        rc=0; out=$$(cd $$m/$$pkg && $$bin -test.run '^$$' -test.fuzz "^$$f\$$" -test.fuzztime $(FUZZTIME) -test.fuzzminimizetime 10x -test.fuzzcachedir $$cache/$$m/$$pkg 2>&1) || rc=$$?; \
	        case "$$rc$$out" in 0*|*"Failing input"*|*panic:*) break;; *"context deadline exceeded"*) ;; *) break;; esac; \
	      done; echo "$$out"; [ $$rc = 0 ]; \
	    done; \
	  done; \
	done; echo "$$n fuzz targets"

bench: ## run the benchmarks that match BENCH (all)
	@$(call each,$(MODULES),go -C $$m test -run '^$$' -bench '$(BENCH)' -benchmem ./...)

bench-check: ## hold the benchmarks to the bounds in docs/hotpaths.md
	@go run ./internal/benchcheck

# SOAKFLAGS="-seed=N -run NAME" repeats what failed; -strict holds times to docs/reliability.md, which wants a machine of its own.
soak: ## kill, fill, lock, damage and flood the real binary for SOAKTIME (10m), and print figures
	@go -C cmd/otelagent test -count=1 -v -timeout 24h ./soak -for $(SOAKTIME) $(SOAKFLAGS) | grep -v '^=== '

# The newest OpenTelemetry that resolves; the root go.mod is the floor.
OTEL_NEWEST := v1.47.0
newest: ## test adapter and exporter against the newest OpenTelemetry and Collector that resolve; their go.mod files are floors
	@dir=$$(mktemp -d); trap 'rm -rf $$dir' EXIT; cp go.sum $$dir/newest.sum; \
	sed -E 's#^(\tgo\.opentelemetry\.io/otel[a-z/]*) v[0-9.]+#\1 $(OTEL_NEWEST)#' go.mod >$$dir/newest.mod; \
	go test -mod=mod -modfile=$$dir/newest.mod $(TESTFLAGS) ./spans ./otelagent/... ./internal/writer
	@go test ./internal/modules -run '^TestAdapterFitsTheADK$$' -frameworks
	@dir=$$(mktemp -d); trap 'rm -rf $$dir' EXIT; cd collector-exporter/agentsessionexporter; \
	cp newest.mod $$dir/newest.mod; cp go.sum $$dir/newest.sum; \
	go test -mod=mod -modfile=$$dir/newest.mod $(TESTFLAGS) ./...

instrumentation: $(GOLANGCI) ## lint and test the modules of frameworks, each with the oldest that it supports (minutes)
	@$(call each,$(INSTRUMENTATION) $(FRAMEWORK_EXAMPLES),(cd $$m && $(GOLANGCI) run ./...))
	@$(call each,$(INSTRUMENTATION),go -C $$m test -short $(TESTFLAGS) ./...)

# A requirement in go.mod with the comment "// newest VERSION" is the oldest; VERSION is the newest that resolves.
instrumentation-newest: ## test them with the newest framework that resolves and the race detector; their go.mod files are floors (needs a C compiler)
	@dir=$$(mktemp -d); trap 'rm -rf $$dir' EXIT; $(call each,$(INSTRUMENTATION),cp $$m/go.sum $$dir/newest.sum; \
	sed -E 's#^(.*) v[^ ]+ // newest (v[^ ]+)$$#\1 \2#' $$m/go.mod >$$dir/newest.mod; \
	$(call racing,$$m,-mod=mod -modfile=$$dir/newest.mod ./...))

ocb-test: ## build collector-exporter/manifest.yaml with the Collector builder and send spans through it (minutes)
	@go -C collector-exporter/distribution/e2e test -count=1 -v -timeout 20m ./...

ocb-build: ## build the whole distribution (collector-exporter/distribution/builder.yaml)
	@go -C internal/tools/ocb build -o $(BIN)/ocb go.opentelemetry.io/collector/cmd/builder
	@cd collector-exporter/distribution && $(BIN)/ocb --config builder.yaml

# $(call example,NAME): an example that `make test` leaves out, run by its one command.
example = OTELAGENT=$(BIN)/otelagent EXAMPLES=$(1) go -C examples test -count=1 -run '^(TestRun|TestRustOfTheGuide)$$' .

interop-phi-core: bin/otelagent ## rebuild the phi-core recordings with the real crate, and let it load what we write (needs cargo)
	@interop/phi-core/run.sh check
	@dir=$$(mktemp -d); trap 'rm -rf $$dir' EXIT; \
	go -C agenttest test . -run '^(TestLedgersEqualThoseOfPhiCore|TestForeignLedgers)$$' -count=1 -args -export-dir=$$dir; \
	interop/phi-core/run.sh accept $$dir/*.json
	@CARGO_TARGET_DIR=$$(interop/phi-core/run.sh target) $(call example,phi-core-pipe)

interop-clark-agent: bin/otelagent ## rebuild the clark-agent recordings with the real crate (needs cargo)
	@interop/clark-agent/run.sh check
	@CARGO_TARGET_DIR=$$(interop/clark-agent/run.sh target) $(call example,clark-agent-pipe)

interop-ndjson: ## let the producers of event lines write theirs again (needs python3 and cargo)
	@interop/ndjson/run.sh check

interop-acp: bin/otelagent ## the official SDK's agent and client, directly and through otelagent acp; let it judge our traces (needs node)
	@interop/acp/run.sh check
	@dir=$$(mktemp -d); trap 'rm -rf $$dir' EXIT; \
	interop/acp/run.sh through $(BIN)/otelagent acp --db $$dir/through.db --capture content --; \
	interop/acp/run.sh validate backend/session/export/testdata/acp/*.ndjson; \
	interop/acp/run.sh replay backend/session/export/testdata/acp/*.ndjson
	@$(call example,acp-proxy)

interop-ai-sdk: bin/otelagent ## the AI SDK writes guide sessions, judges ours, and finds its own unchanged (needs node)
	@interop/ai-sdk/run.sh check
	@dir=$$(mktemp -d); trap 'rm -rf $$dir' EXIT; \
	for v in v6 v7; do \
		bin/otelagent send --db $$dir/$$v.db --capture content dialects/guide/testdata/ai-sdk/$$v.jsonl; \
		for f in json jsonl; do \
			bin/otelagent export last --db $$dir/$$v.db --format $$f -o $$dir/$$v.$$f; \
			interop/ai-sdk/run.sh same dialects/guide/testdata/ai-sdk/$$v.$$f $$dir/$$v.$$f; \
		done; \
	done; \
	for d in dialects/phi/testdata/phi-core-*/*.events.ndjson dialects/clark/testdata/clark-agent-*/*.enveloped.ndjson dialects/acp/testdata/sdk/*.ndjson; do \
		bin/otelagent send --db $$dir/all.db --capture content $$d 2>>$$dir/send.log || { cat $$dir/send.log; exit 1; }; \
	done; \
	bin/otelagent export --all --partial --db $$dir/all.db --format jsonl -o $$dir/all/; \
	interop/ai-sdk/run.sh validate $$dir/all/*.jsonl

interop-replay: bin/otelagent ## the official SDKs of Anthropic and OpenAI judge the request bodies of replay, and ask the same server as it (needs python3)
	@interop/replay/run.sh check

interop-dashboards: ## compare the Grafana dashboards with what Grafana's SDK generates, and judge them by its types (needs node)
	@interop/dashboards/run.sh check

interop-clickhouse: bin/otelagent ## the ClickHouse store and collectors in front of it, on a current engine (needs npm)
	@interop/clickhouse/run.sh check

interop-backends: bin/otelagent ocb-build ## what a real Jaeger and a real Phoenix show of our spans (needs python3; Jaeger takes minutes once)
	@interop/backends/run.sh check

interop-compose: bin/otelagent ocb-build ## docker-compose.yaml by Compose's own loader, its files by their programs, its services as processes (needs apt; Jaeger takes minutes once)
	@interop/compose/run.sh check

interop-prometheus: bin/otelagent ## ask the real Prometheus every query of dashboards and docs, and compare metrics made of spans with the adapter's own (needs prometheus; builds a collector)
	@interop/prometheus/run.sh

interop-viewer: bin/otelagent ## the viewer in a real browser: every page, keyboard, hostile content, 10,000 turns; pictures in interop/viewer/screenshots (needs chromium and npm)
	@interop/viewer/run.sh

interop-viewer-types: ## judge the page's JavaScript by TypeScript, and compare what is vendored there with its packages (needs node)
	@interop/viewer/typecheck/run.sh check

interop-agents: bin/otelagent ## real agents and frameworks against a scripted model: their telemetry, their transcripts, and both (needs npm and python3)
	@interop/agents/run.sh pinned -v

interop-agents-newest: bin/otelagent ## the same with the newest versions: a failure names the format that changed
	@interop/agents/run.sh newest -v

# -e: test dependencies of dependencies that the module proxy does not serve must not stop it.
tidy: ## go mod tidy -e in all modules
	@$(call each,$(ALL_MODULES) $(INSTRUMENTATION) $(FRAMEWORK_EXAMPLES) $(TOOL_MODULES),go -C $$m mod tidy -e)

ci: ## everything that CI may run, slow steps included
	@CI_FULL=1 bash .ci/run

# The tasks of this repository, for people and CI. "make" alone lists them.
.DEFAULT_GOAL := help

# All but the race detector is compiled without C, as deploy/Dockerfile does it. So the checks, the
# tools and the programs that tests start share what is compiled.
export CGO_ENABLED ?= 0

# "tallygate version" shows the commit, with -dirty if files differ from it. Go's own stamp would not do:
# it makes a build fail if the repository belongs to another user.
COMMIT = $(shell git describe --always --dirty --abbrev=40 --exclude='*' 2>/dev/null)
STAMP = -ldflags "-s -w -X github.com/tallygate/tallygate/cmd/tallygate/version.commit=$(COMMIT)"

FUZZTIME ?= 10s# for each fuzz target
TIMEOUT ?= 60m# for the tests of one package

# The race detector ignores the memory that SQLite's translated C code works on: it is not Go's. To
# instrument that code finds nothing and makes each statement five times slower. The driver of
# Chromium is no part of the program.
RACE = -race -gcflags=modernc.org/sqlite/lib=-race=false \
	-gcflags=github.com/chromedp/...=-race=false

# In CI no result of an earlier run counts, and "make test" runs under the race detector, so that
# "make test-left" completes it.
ifeq ($(CI),true)
TESTS = $(RACE) -count=1
DETECTOR = CGO_ENABLED=1
endif

# A program with the race detector sleeps for a second when it exits, unless GORACE sets another time.
export GORACE ?= atexit_sleep_ms=50

# Tests wait for processes, browsers and timeouts for a third of their time, so more packages than
# there are processors run at once. Those that take longest start first, so that none of them runs
# alone at the end. "make check" runs vet.
PARALLEL ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 2)
PLAIN = -vet=off -p=$(PARALLEL) -timeout=$(TIMEOUT) $(FLAGS)
TESTS += $(PLAIN)
# "make test-left" alone runs the packages of browsers and of the load program, and the tests that
# start, kill and restart the whole program.
ifndef PKG
LATER = ./frontend-assets/test/... ./tools/loadgen/... ./cmd/tallygate/test
PKG = ./graph/test ./dataplane/analytics/test ./jobs ./db/reports \
	$(filter-out $(shell go list $(LATER)),$(shell go list ./...))
endif
LONG = ./frontend-assets/test/... ./cmd/tallygate/test ./jobs ./graph/... ./tools/loadgen ./...

.PHONY: help
help: ## Show this list
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/\1|\2/p' Makefile | while IFS='|' read -r name text; do printf '%-18s %s\n' "$$name" "$$text"; done

.PHONY: run
run: ## Run the service (ARGS=demo: with a demo account, site and page)
	go run -buildvcs=false $(STAMP) ./cmd/tallygate $(ARGS)

.PHONY: build
build: ## Build the program as bin/tallygate, static and without symbols
	go build -buildvcs=false -trimpath $(STAMP) -o bin/tallygate ./cmd/tallygate

.PHONY: generate
generate: ## Generate the GraphQL server's code, its client, the templates' code, and docs/operator/configuration.md
	go run -buildvcs=false ./tools/gqlgen
	go tool genqlient graph/client/genqlient.yaml
	go tool qtc -skipLineComments -dir=cmd/tallygate/demo
	go tool qtc -skipLineComments -dir=frontend-assets
	go tool qtc -skipLineComments -dir=jobs/mail
	go test -run '^TestConfigurationPage$$' ./cmd/tallygate/command -update

.PHONY: assets
assets: ## Build frontend-assets/dist from its sources
	go run -buildvcs=false ./frontend-assets/build

.PHONY: setup
setup: ## Install what the full test suite needs, where that is permitted
	@.ci/setup

.PHONY: test
test: ## Run the tests that decide whether a change is right, on both databases (PKG: of these packages)
	@.ci/setup postgres redis
	@go build -buildvcs=false ./...
	@mkdir -p bin
	@$(DETECTOR) go run -buildvcs=false ./tools/testreport -left bin/left-tests $(if $(LATER),-later "$(LATER)") -short $(TESTS) $(PKG)

.PHONY: watch
watch: ## Run "make test" again after each change of a file (PKG: of these packages)
	@mkdir -p bin; while :; do \
		touch bin/watched; \
		$(MAKE) --no-print-directory test PKG="$(PKG)"; \
		until find . -path ./.git -prune -o -path ./bin -prune -o -type f -newer bin/watched -print | grep -q .; do sleep 1; done; \
	done

.PHONY: test-all
test-all: setup ## Run every test, also browsers, faults and loads, under the race detector if there is a C compiler
	@go build -buildvcs=false ./...
	@if CGO_ENABLED=1 go build -race runtime/cgo; then \
		$(MAKE) --no-print-directory test-race; \
	elif [ "$$CI" = true ]; then \
		echo "the race detector cannot be built; CI must run with it"; exit 1; \
	else \
		echo "the race detector cannot be built: running the tests without it"; \
		go run -buildvcs=false ./tools/testreport -count=1 $(TESTS) $(LONG); \
	fi

.PHONY: test-left
test-left: setup ## Run the tests that the last "make test" has left: browsers, faults and loads
	@go run -buildvcs=false ./tools/testreport -only bin/left-tests -count=1 $(PLAIN)

.PHONY: test-race
test-race: ## Run every test under the race detector, installing nothing
	@CGO_ENABLED=1 go run -buildvcs=false ./tools/testreport $(RACE) -count=1 $(TESTS) $(LONG)

.PHONY: test-citus
test-citus: ## Run the tests of stores, hits, jobs and reports on a Citus cluster (CITUS=program that starts one)
	@test -n "$(CITUS)" || { echo "test-citus: set CITUS to a program that starts a cluster, see .ci/citus"; exit 1; }
	@.ci/citus $(CITUS) tests

.PHONY: test-worst
test-worst: ## Build the worst day of each plan, import 200 MB, and check the memory; kill 200 workers (8 minutes)
	TALLYGATE_TEST_WORST=all go test -count=1 -vet=off -timeout=$(TIMEOUT) -run '^TestWorstDayOfEachPlan$$' ./db/reports
	TALLYGATE_TEST_WORST=all go test -count=1 -vet=off -timeout=$(TIMEOUT) -run '^TestKillBetweenLeaseAndRecord$$' ./db/outbox
	TALLYGATE_TEST_WORST=all go test -count=1 -vet=off -v -timeout=$(TIMEOUT) -run '^TestLargeImport$$' ./cmd/tallygate/test

.PHONY: screenshots
screenshots: ## Take pictures of every page of the console (into bin/screenshots; light and dark, narrow and wide)
	mkdir -p bin/screenshots
	go test -count=1 ./frontend-assets/test/console -screenshots $(CURDIR)/bin/screenshots

.PHONY: pictures
pictures: ## Take the pictures of the documents (docs/images)
	go test -count=1 -run '^Test(Figures|FirstSite|Alerts)Chromium$$' ./frontend-assets/test/console -pictures $(CURDIR)/docs/images

.PHONY: fuzz
fuzz: ## Run each fuzz target for FUZZTIME (10s)
	@set -e; for package in $$(go list ./...); do \
		targets=$$(go test -list '^Fuzz' $$package); \
		for target in $$(echo "$$targets" | grep '^Fuzz'); do \
			echo "$$package $$target"; \
			go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x $$package; \
		done; \
	done

.PHONY: bench
bench: ## Run the benchmarks
	go test -run '^$$' -bench . ./...

# Run it on an otherwise idle machine: other load distorts the figures.
.PHONY: bench-report
bench-report: build ## Measure the service and write docs/operator/figures/bench.csv (12 minutes)
	go build -buildvcs=false -o bin/loadgen ./tools/loadgen
	bin/loadgen bench --out docs/operator/figures/bench.csv $(ARGS)

.PHONY: bench-growth
bench-growth: build ## Measure with 10 million stored page views (ARGS="--rows 1000000": fewer)
	go build -buildvcs=false -o bin/loadgen ./tools/loadgen
	bin/loadgen growth --out docs/operator/figures/growth.csv $(ARGS)

.PHONY: bench-reports
bench-reports: build ## Measure reports of 10 million page views (ARGS="--rows 1000000": fewer)
	go build -buildvcs=false -o bin/loadgen ./tools/loadgen
	bin/loadgen reports --out docs/operator/figures/reports.csv $(ARGS)

.PHONY: bench-reports-busy
bench-reports-busy: build ## Measure 30 days of reports of 100 million page views a year
	go build -buildvcs=false -o bin/loadgen ./tools/loadgen
	bin/loadgen reports --per-year 100000000 --days 30 --out docs/operator/figures/reports-busy.csv $(ARGS)

.PHONY: bench-cells
bench-cells: build ## Measure one cell and four, and four on the Citus cluster whose coordinator is at CITUS (3 minutes)
	go build -buildvcs=false -o bin/loadgen ./tools/loadgen
	bin/loadgen cells $(if $(CITUS),--citus $(CITUS)) --out docs/operator/figures/cells.csv $(ARGS)

.PHONY: cluster-run
cluster-run: build ## Break a Citus cluster and a fleet on it under load, and verify (CITUS=program that starts one; 5 minutes)
	@test -n "$(CITUS)" || { echo "cluster-run: set CITUS to a program that starts a cluster, see .ci/citus"; exit 1; }
	@.ci/citus $(CITUS) cluster --out docs/operator/figures/cluster.csv $(ARGS)

.PHONY: attack
attack: build ## Attack the service on each database, and measure the effect on other sites and accounts
	go build -buildvcs=false -o bin/loadgen ./tools/loadgen
	bin/loadgen attack visitor --engine sqlite --engine postgres
	bin/loadgen attack neighbours --engine sqlite --engine postgres
	bin/loadgen attack report --engine sqlite --engine postgres

.PHONY: chaos
chaos: build ## Kill, pause and restart the service 200 times under load on each database, and verify
	go build -buildvcs=false -o bin/loadgen ./tools/loadgen
	bin/loadgen chaos --rounds 200 --engine sqlite $(ARGS)
	bin/loadgen chaos --rounds 200 --engine postgres $(ARGS)
	bin/loadgen chaos --rounds 200 --engine postgres --break server --break postgres --break redis $(ARGS)
	bin/loadgen chaos --rounds 20 --engine sqlite --break child --rate 200 --connections 200 $(ARGS)
	bin/loadgen chaos --rounds 20 --engine postgres --break child --rate 200 --connections 200 $(ARGS)
	bin/loadgen chaos --rounds 20 --engine sqlite --break parent $(ARGS)
	bin/loadgen chaos --rounds 20 --engine postgres --break parent $(ARGS)

.PHONY: fleet
fleet: build ## Measure four data nodes behind HAProxy, kill some under load, and verify
	go build -buildvcs=false -o bin/loadgen ./tools/loadgen
	bin/loadgen fleet --kills 10 $(ARGS)

# The newest release. Without one, the commit before the newest migration; or the newest commit that has edited migrations,
# because programs of before make another schema.
PREVIOUS ?= $(shell git describe --tags --abbrev=0 --match 'v*' 2>/dev/null || { \
	newest=$$(git log -1 --format=%h -- 'db/migrations/*.sql'); \
	git diff --quiet --no-renames --diff-filter=a $$newest^ $$newest -- 'db/migrations/*.sql'; edited=$$?; \
	if [ $$edited = 0 ]; then echo $$newest^; elif [ $$edited = 1 ]; then echo $$newest; fi; })

.PHONY: upgrade
upgrade: build ## Run the program of PREVIOUS (the newest release) and this one on one database under load, and verify
	go build -buildvcs=false -o bin/loadgen ./tools/loadgen
	@git rev-parse --verify --quiet '$(PREVIOUS)^{commit}' || { echo "upgrade: set PREVIOUS to a commit of this repository"; exit 1; }
	rm -rf bin/previous && mkdir -p bin/previous
	git archive $(PREVIOUS) | tar -x -C bin/previous
	@if [ "$$(git rev-parse '$(PREVIOUS)^{commit}')" = "$$(git rev-parse HEAD)" ]; then \
		echo "NO CHECK of an upgrade was made: this commit edits migrations, and programs of before make another schema."; \
	elif cd bin/previous && go list -deps ./cmd/tallygate >/dev/null; then \
		go build -buildvcs=false -o tallygate ./cmd/tallygate && cd ../.. && \
		bin/loadgen upgrade --previous bin/previous/tallygate $(ARGS); \
	else \
		echo "NO CHECK of an upgrade was made: the modules of $(PREVIOUS) cannot be downloaded."; \
	fi

.PHONY: lint
lint: ## Check format, go vet and staticcheck
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "not formatted by gofmt:"; echo "$$unformatted"; exit 1; fi
	go vet ./...
	go tool staticcheck ./...

GENERATED = graph docs/operator/configuration.md '*.qtpl.go'

.PHONY: check
check: generate ## Check that generated files, assets and go.mod are current, lint, and check layout, words and vulnerabilities
	git diff --exit-code -- $(GENERATED)
	@untracked=$$(git ls-files --others --exclude-standard -- $(GENERATED)); if [ -n "$$untracked" ]; then echo "not committed:"; echo "$$untracked"; exit 1; fi
	go run -buildvcs=false ./frontend-assets/build -check
	go mod tidy -diff
	@$(MAKE) --no-print-directory lint
	go test -run '^TestLayout' ./cmd/internal/repository
	@$(MAKE) --no-print-directory words
	@$(MAKE) --no-print-directory vuln

.PHONY: recipes
recipes: ## Run the recipes of frameworks in Chromium, with packages from the network
	cd docs/owner/recipes/frameworks && npm ci
	go test -tags recipes -run '^TestRecipeFrameworksChromium$$' ./cmd/tallygate/test

TSGO = go -C .ci/types build -buildvcs=false -o ../../bin/tsgo github.com/microsoft/typescript-go/cmd/tsgo

.PHONY: packages
packages: ## Build the packages for npm into bin/packages (VERSION=v1.2.3, LICENCE=SPDX-ID)
	@$(TSGO)
	@rm -rf bin/packages
	go run -buildvcs=false ./frontend-assets/build -packages bin/packages -version "$(VERSION)" -licence "$(LICENCE)"

.PHONY: types
types: ## Check the types of the TypeScript sources (the checker is compiled at the first time, some minutes)
	@$(TSGO)
	@for project in . src/console test/unit packages; do bin/tsgo --noEmit --project frontend-assets/$$project || exit 1; done

.PHONY: deploy-lint
deploy-lint: ## Check the files of deploy/ with the parsers of Docker, Compose and Kubernetes
	go -C .ci/deploylint run -buildvcs=false . $(CURDIR)/deploy

.PHONY: release
release: ## Build a release of the commit into bin/release (VERSION=v1.2.3)
	@test -n "$(VERSION)" || { echo "release: set VERSION, such as v1.2.3"; exit 1; }
	go -C .ci/release run -buildvcs=false . -version "$(VERSION)" -out bin/release $(ARGS)

.PHONY: release-check
release-check: ## Build a release twice and compare, run its image, install and remove its packages (4 minutes)
	go -C .ci/release test -buildvcs=false -count=1 -timeout=$(TIMEOUT) -v .

.PHONY: vuln
vuln: ## Scan for known vulnerabilities, if their database can be reached (VULNDB: another one)
	@.ci/vulnerabilities

.PHONY: words
words: ## Check comments, strings and documents for words that are not plain English (ARGS=--count: by folder)
	@.ci/words/check $(ARGS)

.PHONY: size
size: ## Count lines, linked packages and modules, tests and words, and measure the program (COMMITS="v1.0.0 HEAD": of these)
	@.ci/size $(COMMITS)

.PHONY: fmt
fmt: ## Format the Go code
	gofmt -w .

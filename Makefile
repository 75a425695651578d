# Each target does all the set-up that it needs; scripts/ensure-redis.sh finds a redis-server or installs one.
# The tests and the benchmarks start private servers with the binary named in FAIRLOCK_REDIS_SERVER.

with_redis = server=$$(./scripts/ensure-redis.sh) && FAIRLOCK_REDIS_SERVER="$$server"

.PHONY: loom scripts lint-lua help help-all setup quick test conformance test-all test-matrix test-acl test-examples test-doc build-tests test-redis-6.0 test-python test-package-python test-package-node pictures public-api soak whims mutants mutants-generic mutants-layers model fuzz deny dist dist-static dist-deb dist-python dist-node release-check bench bench-peers bench-replicas bench-node demo
help:
	@echo "make demo        six jobs compete for one lock, two are killed, and a timeline shows who held it when"
	@echo "make quick       the tests that need no server and the scripts against the model: within a minute of an edit"
	@echo "make test        all tests, each on private Redis servers; make tests/api: those of one folder"
	@echo "make mutants     puts one deliberate error after the other into the code; the tests must find each"
	@echo "make bench       what the lock costs, see benches/README.md; ROWS='5 cycle' for some"
	@echo
	@echo "make help-all    all the others"

help-all: help
	@echo "make test-examples the examples that need more than Redis (axum, SQLite, PostgreSQL, a Prometheus exporter)"
	@echo "make test-all    all of the above, longer failover runs of Sentinel and Cluster, and test-matrix"
	@echo "make test-matrix the tests on Redis 6.0 to 8 and Valkey, with least rights, and at Sentinel and Cluster;"
	@echo "                 some of them: make test-matrix ROWS='valkey-9 least'"
	@echo "make test-acl    the tests, every client with exactly the rights that docs/guide.md lists"
	@echo "make conformance a client of docs/protocol.md in any language: does it keep each rule of that page, and its place"
	@echo "                 in a queue with Rust processes under faults? make conformance CLIENT='node driver.js', see"
	@echo "                 docs/conformance.md; make test-python: the Python client, and mistakes in it that must be found"
	@echo "make test-package-python  the Python package in python/: its wheel, in a fresh virtual environment, and what each"
	@echo "                 Python does in its own way on the oldest and the newest"
	@echo "make test-package-node  the npm package in node/: packed and installed into a fresh folder, with its examples, also"
	@echo "                 on other Nodes, which npm fetches"
	@echo "make soak        the scripts against the model for as long as you like: make soak STEPS=5000000;"
	@echo "                 or processes under all faults at random, judged at the end: make soak MINUTES=60;"
	@echo "                 or under failovers and moves of slots too: make soak MINUTES=60 AT=sentinels, or AT=cluster"
	@echo "make whims       processes that behave and die at random, as often as you like: make whims CASES=50"
	@echo "make mutants-generic  the same with what cargo-mutants generates for the parts without I/O; see docs/mutants.md"
	@echo "make mutants-layers   a sample of them, each in every layer of tests alone: which layer finds what (hours)"
	@echo "make loom        tries every order of memory operations where threads share more than a mutex; CI runs it"
	@echo "make model       explores every state of larger worlds of clients and server, under each kind of fault (hours)"
	@echo "make fuzz        feeds random bytes to every parser, with a nightly compiler: make fuzz SECONDS=600"
	@echo "make scripts     writes the scripts as they are sent to lua/rendered; make lint-lua: luacheck on them"
	@echo "make public-api  writes the public interface to docs/public-api.txt, which CI compares"
	@echo "make pictures    draws docs/pictures/*.svg from the texts next to them"
	@echo "make deny        licences, sources and known vulnerabilities of the dependencies"
	@echo "make bench-peers compares with other locks; make bench-replicas: what it costs to wait for replicas;"
	@echo "                 make bench-node: the npm package beside other locks of npm"
	@echo "make dist        a static binary and a Debian package, tried, in target/packages; make dist-static, make dist-deb: one"
	@echo "make dist-python  what PyPI gets: wheels for glibc and musl, x86_64 and aarch64, and the source, in target/packages"
	@echo "make dist-node   what npm gets: a package, and one for each platform with its library, in target/packages"
	@echo "make release-check  a release without publishing it: docs, crates, packages and image, made and tried; CI does not"
	@echo "make setup       only what the other targets need: a redis-server and the crates"

setup:
	@$(with_redis) && echo "redis-server: $$FAIRLOCK_REDIS_SERVER"
	cargo fetch

# Of these cargo builds what a target needs, with the features that all of them together need. So whatever is chosen of
# them, in a script too, a dependency is built once.
packages := $(shell cat scripts/packages.txt)

# These tests compute all the time, so they are optimized: that takes less time than it saves.
optimized := cargo --config profile.dev.package.fairlock.opt-level=2 test $(packages)
quick:
	$(with_redis) $(optimized) --lib --test model

# These wait for servers and timers most of the time, so five of them share a core.
five_a_core = RUST_TEST_THREADS=$$((5 * $$(getconf _NPROCESSORS_ONLN)))
# The folder whose processes compute most comes first, with those next to it that wait most.
waiting := histories $(filter-out api histories model,$(patsubst tests/%/main.rs,%,$(wildcard tests/*/main.rs))) api cli
build_waiting = cargo test $(packages) --bin fairlock $(waiting:%=--test %) --no-run
# What `test` compiles, without running it.
build-tests:
	$(optimized) --lib --test model --no-run
	$(build_waiting)

# Two at once: while the last tests of one wait, the other one has work. Three would be late too often on two cores. The
# make of macOS cannot keep their outputs apart.
two_at_once := --no-print-directory --jobs=2 $(filter --output-sync,$(.FEATURES:%=--%))
test:
	-./scripts/fetch-servers.sh redis-5.0
	$(MAKE) quick
	$(build_waiting)
	$(MAKE) $(two_at_once) test-doc $(waiting:%=tests/%) test-redis-6.0

.PHONY: tests/model $(waiting:%=tests/%)
tests/model:
	$(with_redis) $(optimized) --test model

$(waiting:%=tests/%): tests/%:
	$(with_redis) $(five_a_core) cargo test $(packages) --test $* $(if $(filter cli,$*),--bin fairlock)

test-doc:
	$(optimized) --doc

test-redis-6.0:
	$(five_a_core) OPTIONAL=1 TESTS="api::arrival_order api::server_costs api::cleanup api::leases faults::reconnects" ./scripts/test-matrix.sh redis-6.0

test-all: test
	$(with_redis) cargo test --test histories -- sentinels_and_clusters:: three_hundred_holders --ignored
	$(MAKE) test-matrix

test-matrix:
	./scripts/test-matrix.sh $(ROWS)

test-acl:
	./scripts/test-matrix.sh least

# Without CLIENT it is the Python client.
conformance: export FAIRLOCK_CLIENT = $(CLIENT)
conformance:
	$(with_redis) RUST_BACKTRACE=0 cargo test --quiet --test histories conformance::a_ -- --ignored --nocapture --test-threads=1

# It makes a virtual environment under target/, and says so if there is no python3.
test-python:
	$(with_redis) $(five_a_core) cargo test $(packages) --test histories -- python:: conformance:: --ignored --nocapture --skip python_package

# It makes its virtual environments under python/target, and says so if there is no python3.
test-package-python:
	$(with_redis) ./scripts/test-package-python.sh

# It installs into node/target, and says so if there is no node.
test-package-node:
	$(with_redis) ./scripts/test-package-node.sh

soak: STEPS ?= 2000000
soak:
ifdef AT
	$(with_redis) FAIRLOCK_MINUTES=$(or $(MINUTES),10) cargo test --release --test histories sentinels_and_clusters::soak_at_$(AT) -- --ignored --exact --nocapture
else ifdef MINUTES
	$(with_redis) FAIRLOCK_MINUTES=$(MINUTES) cargo test --release --test histories single_server::soak -- --ignored --exact --nocapture
else
	$(with_redis) STEPS=$(STEPS) cargo test --release --test model
endif

whims: CASES ?= 10
whims:
	$(with_redis) FAIRLOCK_CASES=$(CASES) cargo test --test histories random_behaviour:: -- --nocapture

mutants:
	$(with_redis) RUST_BACKTRACE=0 cargo test --test mutants no_mutant_survives -- --ignored --nocapture

# ONLY picks some by what their names contain, as in ONLY=src/keeper/machine/lease.rs, and LISTED is more for their list,
# as in LISTED='--in-diff FILE'.
mutants-generic:
	@cargo mutants --version >/dev/null 2>&1 || { echo "cargo install --locked cargo-mutants"; exit 1; }
	mkdir -p target/mutants
	cargo mutants --list --json $(LISTED) >target/mutants/generic.json
	MUTANTS=target/mutants/generic.json cargo test --test mutants no_mutant_survives -- --ignored --nocapture

mutants-layers:
	$(with_redis) RUST_BACKTRACE=0 cargo test --test mutants each_layer_alone -- --ignored --nocapture

# What these examples need (a web framework, databases) takes minutes the first time.
test-examples:
	postgres=$$(./scripts/ensure-postgres.sh) && $(with_redis) FAIRLOCK_POSTGRES="$$postgres" cargo test $(packages) --test more

# The real files that rest on the order of memory operations, in every order that the memory model allows. Without
# optimization: the tests take seconds then, and loom in a release a minute to compile.
loom:
	cargo test -p fairlock-loom

model:
	cargo test --release --lib every_state_of_larger -- --ignored --nocapture

fuzz: SECONDS ?= 60
fuzz:
	[ -x target/tools/bin/cargo-fuzz ] || cargo install --locked --root target/tools cargo-fuzz
	for target in push answer nodes url wire; do \
		mkdir -p fuzz/corpus/$$target && PATH="$$PWD/target/tools/bin:$$PATH" cargo +nightly fuzz run $$target \
			fuzz/corpus/$$target fuzz/seeds/$$target -- -max_total_time=$(SECONDS) -max_len=4096 || exit 1; \
	done

deny:
	./scripts/deny.sh

# For Linux, statically linked with musl: see scripts/dist.sh.
dist:
	./scripts/dist.sh

dist-static dist-deb:
	./scripts/dist.sh $(@:dist-%=%)

dist-python:
	./scripts/dist-python.sh

dist-node:
	./scripts/dist-node.sh

# A dry run of docs/releasing.md. It takes half an hour, and CI does not run it.
release-check:
	./scripts/release-check.sh

public-api:
	./scripts/public-api.sh --write

pictures:
	./scripts/pictures.sh

# The scripts as they are sent, for other languages: lua/rendered. A test compares.
scripts:
	FAIRLOCK_RENDER=1 cargo test --lib rendered_scripts

lint-lua:
	./scripts/lint-lua.sh

# ROWS chooses groups of rows, and with a number the rounds, as in ROWS='5 cycle hand_off'.
bench:
	$(with_redis) cargo bench --bench table -- $(ROWS)

bench-replicas:
	$(with_redis) cargo bench --bench replicas

bench-node:
	$(with_redis) ./scripts/bench-node.sh $(ROUNDS)

bench-peers:
	$(with_redis) ./benches/peers/run.sh $(ROWS)

demo:
	./scripts/demo/demo.sh

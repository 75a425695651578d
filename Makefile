# Each target does all the set-up that it needs; scripts/ensure-redis.sh finds a redis-server or installs one.
# The tests and the benchmarks start private servers with the binary named in FAIRLOCK_REDIS_SERVER.

with_redis = server=$$(./scripts/ensure-redis.sh) && FAIRLOCK_REDIS_SERVER="$$server"

.PHONY: help setup test bench demo
help:
	@echo "make demo    six jobs compete for one lock, two are killed, and a timeline shows who held it when"
	@echo "make test    all tests, each on private Redis servers"
	@echo "make bench   the benchmarks"
	@echo "make setup   only what the others need: a redis-server and the crates"

setup:
	@$(with_redis) && echo "redis-server: $$FAIRLOCK_REDIS_SERVER"
	cargo fetch

test:
	$(with_redis) cargo test --features cli

bench:
	$(with_redis) cargo bench --features cli

demo:
	./scripts/demo/demo.sh

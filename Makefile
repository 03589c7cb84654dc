# weir: short commands. Plain cargo works too.
.PHONY: help setup setup-test build dpdk demo test quick bench check arrows miri loom fuzz install uninstall deb image disk-image clean
CARGO ?= cargo

help:            ## List the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## /  make \1\t/' | expand -t 18

setup:           ## Install what is missing to build and run: compiler, ip
	@scripts/setup

setup-test:      ## Install what is missing to test: nightly compiler, tshark, iperf3, scapy, buildah
	@scripts/setup test

build: setup     ## The release binary: target/release/weir
	$(CARGO) build --release -p weir

dpdk:            ## The same with DPDK ports (dpdk: URIs), over libdpdk, which it installs: target/dpdk/release/weir
	@scripts/setup dpdk
	$(CARGO) build --release -p weir --features dpdk --target-dir target/dpdk

demo: build      ## A control plane, a user plane and 50,000 subscribers over real interfaces, 20 seconds, live; GATEWAY=bng
	scripts/as-root target/release/weir demo --gateway $(or $(GATEWAY),upf)

test: setup-test      ## All tests: units, properties, golden cases, real sockets, judges, Miri, loom, fuzzing
	@CARGO=$(CARGO) scripts/test

quick:           ## Tests that need no root and no tools
	$(CARGO) test --workspace --lib

bench: build     ## All targets, measured: target, figure, verdict
	scripts/as-root target/release/weir bench suite

check:           ## Format, lints, documentation, arrows
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps
	$(MAKE) --no-print-directory arrows

arrows:          ## Check that dependencies between crates run one way
	$(CARGO) test -q -p testkit --test arrows

miri: setup-test      ## Undefined behaviour in frames and tables
	MIRIFLAGS=-Zmiri-disable-isolation $(CARGO) +nightly miri test -q --target-dir target/miri -p frame -p table

loom: setup-test      ## Every interleaving of rings and snapshots
	CARGO_PROFILE_RELEASE_LTO=off RUSTFLAGS="--cfg loom" $(CARGO) test -q --release --target-dir target/loom -p table --lib loom

fuzz: setup-test      ## Every parser and the whole pipeline, a few seconds each: make fuzz SECONDS=60
	fuzz/run $(or $(SECONDS),5)

install:         ## Install into PREFIX=/usr/local: binary, service, manual pages, completions, examples
	scripts/install

uninstall:       ## Remove that; configurations and ledgers stay
	scripts/install --remove

deb: build       ## Debian packages in target/deb: weir, and its debug symbols apart
	@command -v dpkg-shlibdeps >/dev/null || { echo 'make deb needs: apt install dpkg-dev' >&2; exit 1; }
	scripts/deb

image: deb       ## A container image of that package, with buildah
	scripts/image

disk-image: deb  ## A disk image of Debian with that package, for clouds and virtual machines: target/deb/weir.raw
	scripts/as-root scripts/disk-image

clean:           ## Remove what was built
	$(CARGO) clean

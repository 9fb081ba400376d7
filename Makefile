# The verbs of this project. `make help` lists them; CONTRIBUTING.md says how long each takes.
#
# Long work lives in scripts which a verb names; nothing else (CI least of all) has recipes of its own.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

CACHE := $(or $(CORACLE_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/coracle)
TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
CARGO_HOME ?= $(HOME)/.cargo

export CORACLE_CACHE := $(CACHE)
export PATH := $(CARGO_HOME)/bin:$(PATH):/usr/sbin:/sbin
# The Rust of rust-toolchain.toml under whatever name it is installed, so that no verb downloads one.
export RUSTUP_TOOLCHAIN := $(or $(RUSTUP_TOOLCHAIN),$(shell PATH="$(CARGO_HOME)/bin:$$PATH" .ci/toolchain))

FUZZ_SECONDS ?= 60
# What `build`, `images` and `install` make: `release`, or `dev`, which takes a third of the time.
PROFILE ?= release
# Where `install` puts the programs; DESTDIR goes in front of it.
PREFIX ?= /usr/local
BUILT := $(TARGET)/$(if $(filter dev,$(PROFILE)),debug,$(PROFILE))

.PHONY: help setup build images install deb cluster-install check test test-all e2e demo bench fuzz mutants advisories clean cluster-build cluster-up cluster-down guests kubeconfig kubectl

help: ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 22

setup: ## install what is missing: Debian packages, cargo-deny (run it as often as you like)
	@.ci/setup

# In two calls: in one, the library launcher in coracle would get the features of the program, and with them libvirt.
build: setup ## the programs, optimised: target/release/coracle, target/release/virt-launcher
ifeq ($(PROFILE),dev)
	@# With the features that `make test` builds with, libvirt in coracle among them: what it has built is not built again.
	cargo build --locked --workspace --bins --test e2e
else
	cargo build --profile $(PROFILE) --locked -p coracle
	cargo build --profile $(PROFILE) --locked -p launcher --bin virt-launcher
endif

check: setup ## format, lints, licences and bans, documentation, the arrows between the crates
	cargo fmt --all --check
	cd tests/cluster && shellcheck $$(grep -lIm1 '^#!/usr/bin/env bash' * sh/* clients/* csi/* 2>/dev/null) sh/*.sh
	shellcheck tests/suites images/rustc-static images/host/install images/host/deb src/page/assets/vendor.sh
	cargo test --workspace --locked --quiet --test repo
	"$$(.ci/setup path cargo-deny)" --locked --workspace check -D warnings bans licenses sources
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --document-private-items --locked

test: setup ## every suite, and a story in a real cluster for each capability and kind (tests/e2e/stories.tsv)
	tests/suites
	PROFILE=dev tests/e2e/run --short

test-all: setup ## every suite at its full length, and every story
	CORACLE_TEST_TIER=all tests/suites
	PROFILE=dev tests/e2e/run

# Linked statically (images/rustc-static), so that they run in an image with nothing else in it.
IMAGED := virt-controller virt-api virt-handler cdi-uploadproxy container-disk cdi-worker

PACK = images/build "$(BUILT)" virt-controller virt-api virt-handler cdi-uploadproxy virt-launcher cdi-worker

# `sudo make install` installs what its user has built: only missing programs are built.
install: ## coracle, virt-launcher, completions and manual pages below PREFIX (/usr/local); DESTDIR for packages
	@[[ -x "$(BUILT)/coracle" && -x "$(BUILT)/virt-launcher" ]] || $(MAKE) build
	images/host/install "$(BUILT)" "$(PREFIX)"

deb: build ## a Debian package of them: target/coracle_VERSION_ARCH.deb, its path is printed
	images/host/deb "$(BUILT)" "$(TARGET)"

# Prints the paths; what is packed already is not packed again.
images: build ## the images of the control plane, as archives: their paths are printed
ifneq ($(PROFILE),dev)
	cargo build --profile $(PROFILE) --locked -p virt-controller -p virt-api -p virt-handler -p cdi-uploadproxy -p container-disk -p cdi $(addprefix --bin ,$(IMAGED))
endif
	$(PACK)

demo: build ## the product, seen: a Debian disk over HTTP becomes an image, then a machine to log in to; an ISO boots
	tests/demo.sh "$(TARGET)/release/coracle"

bench: build images ## measure against the usual tools and write docs/benchmarks.md (about an hour)
	-@.ci/setup cluster
	cargo build --release --locked -p coracle --example decode
	cargo build --release --locked -p launcher --no-default-features --example relay
	cargo build --release --locked -p virt-controller --example load
	images=$$($(PACK)); tests/bench/run "$(TARGET)/release/coracle" --images $$images $(BENCH)

fuzz: ## run every fuzz target for FUZZ_SECONDS (60) each; needs a nightly Rust
	@.ci/setup fuzz
	tests/fuzz.sh "$(FUZZ_SECONDS)"

mutants: ## code below MODULES of CRATE that no test would miss: CRATE=cdi MODULES="src/run src/journal" (tests/mutants/README.md)
	tests/mutants/run $(CRATE) $(MODULES) $(ARGS)

advisories: setup ## known faults in our dependencies (needs the network)
	"$$(.ci/setup path cargo-deny)" --locked --workspace check advisories

# The test cluster (tests/cluster/README.md). NODES=2 adds a second node; CLUSTER=name is one that several clones share.
cluster-build: ## the test cluster's programs: Kubernetes, containerd, CoreDNS (11 minutes, once)
	@.ci/setup cluster
	tests/cluster/build

cluster-up: ## a real Kubernetes cluster on this machine, with NODES (1) nodes; needs root
	@.ci/setup cluster
	tests/cluster/up

cluster-down: ## end it; nothing of it is left
	tests/cluster/down

e2e: setup ## the product in a real cluster: start one, install, run tests/e2e, end it (KEEP=1: leave it)
	tests/e2e/run

cluster-install: build images ## the product into the test cluster; returns when it is available
	images=$$($(PACK)); tests/cluster/install "$(BUILT)/coracle" $$images

guests: build ## images of small guests into the test cluster's registry (GUESTS="tiny disk")
	tests/cluster/guests "$(BUILT)/coracle" $(GUESTS)

kubeconfig: ## where its administrator's kubeconfig is
	@tests/cluster/info kubeconfig

kubectl: ## kubectl on it: make kubectl ARGS="get pods -A"
	@tests/cluster/kubectl $(ARGS)

clean: ## remove what was built here; the tools and guest disks in ~/.cache/coracle stay
	cargo clean

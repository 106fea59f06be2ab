# Two commands: `make run` and `make test`. Both install what they need on a fresh Debian machine and say what they do.

STORE  ?= ./everbyte.store
LISTEN ?= 127.0.0.1:6380
PREFIX ?= /usr/local
CARGO  := PATH="$$HOME/.cargo/bin:$$PATH" cargo

.PHONY: help run test build install setup clean

help:
	@echo "make run    build, create $(STORE) if absent, serve it on $(LISTEN)"
	@echo "make test   every test that continuous integration runs"
	@echo "make build  target/release/everbyte"
	@echo "make install  in $(PREFIX): everbyte, its helper of mount and units of systemd; headers, manual pages and libraries for C and C++"
	@echo "cargo xtask help   the chores: tidy, museum, bench, dax, fuzz, soak"

build:
	@ci/setup build
	$(CARGO) build --release --locked --package everbyte-cli

run: build
	./target/release/everbyte serve $(STORE) --create --listen $(LISTEN)

install:
	@ci/setup build
	$(CARGO) build --release --locked --package everbyte-capi --package everbyte-cli
	@ci/install target/release $(PREFIX)

test:
	@ci/setup test
	$(CARGO) xtask ci

clean:
	$(CARGO) clean

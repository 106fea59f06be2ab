// The steps of crashed.cpp as a program of its own for `everbyte crash --run --check`, which
// watches its stores: `explored make`, an empty pool in the store `EVERBYTE_STORE`, `make-roots`,
// one with its roots; `run`, each step, and `wrong`, one that stores around the log; `look`, after
// a crash: the pool is as some of the steps have left it, all acknowledged ones among them;
// `look-wrong`.
#include <everbyte/crash.h>

#include "crashed.cpp"
#include "require.hpp"

#include <array>
#include <cstdlib>
#include <string>
#include <vector>

using state = std::vector<std::uint64_t>;

state found() {
  state all(64);
  all.resize(crashed_found(all.data(), all.size()));
  return all;
}

// Each step, and what the pool has after it.
struct promise {
  const char* name;
  state after;
};
const std::array<promise, 7> steps{{
    {"open", {1000, 1001, 0, 0, 0, 0}},
    {"constructor", {1, 2, 3, 1000, 1001, 0, 0, 0, 0}},
    {"throw in a constructor", {1, 2, 3, 1000, 1001, 0, 0, 0, 0}},
    {"hash", {1, 2, 3, 1000, 1001, 40, 50, 5, 0}},
    {"visit", {1, 2, 3, 1000, 1001, 40, 50, 5, 90}},
    {"guards", {1, 2, 3, 1000, 7, 8, 1001, 40, 50, 5, 90}},
    {"drop", {8, 7, 1, 2, 3, 1000, 1001, 40, 50, 5, 90}},
}};

void run(const char* path) {
  for (const auto& [name, after] : steps) {
    everbyte_crash_begin(name);
    if (name == steps[0].name) {
      open_roots(shop(path));
    } else {
      REQUIRE(crashed_step(name) != std::string_view(name).starts_with("throw"));
    }
    everbyte_crash_acked();
    REQUIRE(found() == after);
  }
}

// A cast around `mut`: the first number is in no log, and is never flushed.
void run_a_wrong_one(const char* path) {
  open_roots(shop(path));
  everbyte_crash_begin("stores around the log");
  shop::txn([&](auto& t) {
    const_cast<std::uint64_t&>(now->all->visited) = 7;  // everbyte: allow(cast) the explorer is to find it
    auto made = t.make(std::in_place_type<link>, t, 1u, 1u, nullptr);
    *now->all.mut(t, &all_of_it::links) = made;
  });
  everbyte_crash_acked();
}

void look(const char* path, bool is_wrong) {
  shop pool(path);
  everbyte_crash_recovered();
  open_roots(std::move(pool));
  const state all = found();
  if (is_wrong) {
    REQUIRE((now->all->visited == 7) == static_cast<bool>(now->all->links));
    return;
  }
  const long begun = everbyte_crash_seen_begun(), acked = everbyte_crash_seen_acked();
  bool is_right = begun == 0 || (begun == 1 && acked == 0 && all == steps[0].after);
  for (long done = acked; done <= begun && !is_right; ++done) {
    is_right = done > 0 && steps.at(static_cast<std::size_t>(done) - 1).after == all;
  }
  if (!is_right) {
    for (std::uint64_t one : all) std::fprintf(stderr, "%lu ", one);
    std::fprintf(stderr, "after %ld steps, %ld acknowledged\n", begun, acked);
    std::exit(1);
  }
  // Usable again.
  REQUIRE(crashed_step("constructor") && now->all->links->value == 1);
}

int main(int, char** words) {
  const char* path = std::getenv("EVERBYTE_STORE");
  std::string_view part = words[1];
  if (part.starts_with("make")) {
    shop pool(path, {.create = true, .span = 2u << 20});
    if (part == "make-roots") open_roots(std::move(pool));
  } else if (part == "run") {
    run(path);
  } else if (part == "wrong") {
    run_a_wrong_one(path);
  } else {
    look(path, part == "look-wrong");
  }
  crashed_close();
}

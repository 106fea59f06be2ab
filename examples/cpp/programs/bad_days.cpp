// Bad days: `bad_days STORE full`, a pool without room; `exit`, a program that ends in a lambda;
// `fork`, children outside of a lambda and in one.
#include "archive.hpp"
#include "shop.hpp"

#include "require.hpp"

#include <array>
#include <csignal>
#include <string>

#include <sys/wait.h>
#include <unistd.h>

using stock::archive;
using stock::shop;
using enum everbyte::error_kind;

struct block {
  std::array<std::uint64_t, 64> words;
};
EVERBYTE_FIELDS(block, words)

void a_full_pool_refuses_and_stays_whole(const std::string& path) {
  archive pool(path, {.create = true, .size_max = 64u << 20, .span = 2u << 20});
  auto prices = pool.root<archive::prices>("prices");
  std::size_t kept = 0;
  must_refuse(no_space, "", [&] {
    for (;;) {
      archive::txn([&](auto& t) {
        for (int round = 0; round < 500; ++round) {
          t.make(block{});
          prices.push(t, 1.0);
        }
      });
      kept = prices.size();
    }
  });
  REQUIRE(prices.size() == kept && kept > 0 && kept < 10000);  // as much as the span of 2 MiB
  archive::txn([&](auto& t) { prices.push(t, 2.0); });
  REQUIRE(prices.size() == kept + 1 && prices.at(kept) == 2.0);
}

// Runs `body` in a child; answers its status.
template <class Body>
int in_a_child(Body&& body) {
  pid_t child = fork();
  if (child == 0) {
    body();
    std::_Exit(0);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  return status;
}

void a_child_of_fork_changes_nothing(const shop& pool, const shop::counter& counter) {
  REQUIRE(in_a_child([&] {
            must_refuse(invalid, "cannot be used after fork", [&] { shop::txn([&](auto& t) { counter.add(t, 50); }); });
            must_refuse(invalid, "cannot be used after fork", [&] { return pool.root<shop::counter>("other").value(); });
            REQUIRE(counter.value() == 1);
          }) == 0);
  int ended = -1;
  shop::txn([&](auto& t) {
    counter.add(t, 1);
    // One that leaves the lambda by `_Exit`, and one that does not.
    REQUIRE(in_a_child([&] { must_refuse(invalid, "cannot be used after fork", [&] { counter.add(t, 50); }); }) == 0);
    pid_t child = fork();
    if (child == 0) return;
    REQUIRE(waitpid(child, &ended, 0) == child);
  });
  REQUIRE(WIFSIGNALED(ended) && WTERMSIG(ended) == SIGABRT);
  REQUIRE(counter.value() == 2);
}

int main(int, char** words) {
  std::string path = words[1], run = words[2];
  if (run == "full") {
    a_full_pool_refuses_and_stays_whole(path + ".full");
    return 0;
  }
  shop pool(path, {.create = true});
  auto counter = pool.root<shop::counter>("count");
  if (run == "exit") {
    shop::txn([&](auto& t) { counter.add(t, 1); });
    shop::txn([&](auto& t) {
      counter.add(t, 100);
      std::exit(0);
    });
  }
  REQUIRE(counter.value() == 1);
  a_child_of_fork_changes_nothing(pool, counter);
}

// Bad days: `bad_days STORE full`, a pool without room; `exit`, a program that ends in a lambda;
// `fork`, children outside of a lambda, in one, and at the end of a pool; `constructor`, one that
// throws; `jump`, `jump_read`, `jump_use`, `jump_open`, `jump_close` and `leave`, a lambda that is
// left by `longjmp` and by `pthread_exit`, and `after`, what those leave.
#include "archive.hpp"
#include "shop.hpp"

#include "require.hpp"

#include <array>
#include <csetjmp>
#include <csignal>
#include <cstring>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>

#include <pthread.h>
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

// Values of C++ for which there is no room, as a new entry and in place of an old one.
void a_value_that_finds_no_room_is_rolled_back(const std::string& path) {
  shop pool(path, {.create = true, .size_max = 64u << 20, .span = 2u << 20});
  auto all = pool.root<shop::kv_store<int, std::string>>("KVStore");
  const std::string text(5000, 'x');
  int kept = 0;
  must_refuse(no_space, "", [&] {
    for (;; ++kept) {
      shop::txn([&](auto& t) {
        all.put(t, -kept, "half");
        all.put(t, kept + 1, text);
      });
    }
  });
  REQUIRE(kept > 10 && all.size() == 2 * static_cast<std::size_t>(kept));
  must_refuse(no_space, "", [&] { shop::txn([&](auto& t) { all.put(t, 1, std::string(1 << 20, 'y')); }); });
  REQUIRE(all.get(1) == text && all.get(kept) == text && all.get(1 - kept) == "half" && !all.get(-kept));
  shop::txn([&](auto& t) { all.put(t, 1, "one"); });
  REQUIRE(all.get(1) == "one" && all.get(2) == text);
}

struct picky {
  std::uint64_t value;
  explicit picky(std::uint64_t of) : value(of) {
    if (of == 13) throw std::range_error("picky");
  }
  picky() : picky(0) {}
};
EVERBYTE_FIELDS(picky, value)

// An exception of a constructor makes nothing; if it leaves the lambda, that is rolled back.
void a_constructor_may_throw(const shop& pool) {
  auto kept = pool.cpp_root<picky>("picky");
  int caught = 0;
  shop::txn([&](auto& t) {
    kept.mut(t)->value = 1;
    try {
      t.make(std::in_place_type<picky>, 13u);
    } catch (const std::range_error&) {
      ++caught;
    }
    t.destroy(t.make(std::in_place_type<picky>, 12u));
  });
  try {
    shop::txn([&](auto& t) {
      kept.mut(t)->value = 2;
      t.make(std::in_place_type<picky>, 12u);
      t.make(std::in_place_type<picky>, 13u);
    });
  } catch (const std::range_error&) {
    ++caught;
  }
  REQUIRE(caught == 2 && kept->value == 1);
}

std::jmp_buf before_the_lambda;
std::function<void()> uses_it;

[[gnu::noinline]] void jump_out(const shop::counter& counter) {
  shop::txn([&](auto& t) {
    counter.add(t, 100);
    uses_it = [&] { counter.add(t, 1); };  // everbyte: allow(kept) its use ends the program
    std::longjmp(before_the_lambda, 1);
  });
}

// Overwrites the frames that the jump has freed.
[[gnu::noinline]] void overwrite_the_stack() {
  std::array<unsigned char, 64 * 1024> bytes;
  std::memset(bytes.data(), 0xa5, bytes.size());
  asm volatile("" : : "r"(bytes.data()) : "memory");
}

// The next transaction ends the program: it would be a part of the one that was left. So do the
// next reading, a use of the transaction that was left, the next opening and the end of the pool.
void a_lambda_is_left_by_longjmp(const shop::counter& counter, const std::string& path, const std::string& run) {
  if (setjmp(before_the_lambda) == 0) jump_out(counter);
  overwrite_the_stack();
  if (run == "jump") shop::txn([&](auto& t) { counter.add(t, 1); });
  if (run == "jump_use") uses_it();
  if (run == "jump_read") std::exit(static_cast<int>(counter.value()));
  if (run == "jump_open") shop second(path + ".second", {.create = true});
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

// Nor objects of C++, in a lambda of its parent.
void a_child_of_fork_makes_and_destroys_nothing(const shop& pool) {
  auto root = pool.cpp_root<block>("block of a child");
  everbyte::pointer_t<block, shop> made;
  // everbyte: allow(kept) committed before it is used
  shop::txn([&](auto& t) { made = t.make(block{}); });
  shop::txn([&](auto& t) {
    REQUIRE(in_a_child([&] {
              auto refused = [](auto&& body) { must_refuse(invalid, "cannot be used after fork", body); };
              refused([&] { t.make(block{}); });
              refused([&] { t.destroy(made); });
              refused([&] { root.mut(t)->words[0] = 1; });
              refused([&] { *made.mut(t, &block::words) = {}; });
            }) == 0);
    t.destroy(made);
  });
  REQUIRE(root->words[0] == 0);
}

// A child ends its copies of the objects, and opens a store of its own; the parent goes on.
void a_child_of_fork_closes_nothing(const std::string& path, const char* backend) {
  std::optional<archive> pool(std::in_place, path, everbyte::pool_options{.create = true, .backend = backend, .durability = "process"});
  std::optional<archive::counter> counter(pool->root<archive::counter>("count"));
  auto add = [&] {
    return archive::txn([&](auto& t) { return counter->add(t, 1); });
  };
  REQUIRE(add() == 1);
  REQUIRE(in_a_child([&] {
            must_refuse(invalid, "cannot be used after fork", [&] { pool->sync(); });
            counter.reset();
            pool.reset();
            archive own(path + ".child", {.create = true, .backend = backend});
            auto other = own.root<archive::counter>("count");
            REQUIRE(archive::txn([&](auto& t) { return other.add(t, 5); }) == 5);
          }) == 0);
  REQUIRE(add() == 2);
  counter.reset();
  pool.reset();
  pool.emplace(path, everbyte::pool_options{.backend = backend});
  counter.emplace(pool->root<archive::counter>("count"));
  REQUIRE(add() == 3);
}

int main(int, char** words) {
  std::string path = words[1], run = words[2];
  if (run == "full") {
    a_full_pool_refuses_and_stays_whole(path + ".full");
    a_value_that_finds_no_room_is_rolled_back(path + ".values");
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
  if (run.starts_with("jump")) {
    a_lambda_is_left_by_longjmp(counter, path, run);
    return 0;
  }
  if (run == "leave") {
    shop::txn([&](auto& t) {
      counter.add(t, 100);
      pthread_exit(nullptr);
    });
  }
  if (run == "constructor") {
    a_constructor_may_throw(pool);
    return 0;
  }
  if (run == "after") {
    REQUIRE(counter.value() == 2);
    return 0;
  }
  REQUIRE(counter.value() == 1);
  a_child_of_fork_changes_nothing(pool, counter);
  a_child_of_fork_makes_and_destroys_nothing(pool);
  for (const char* backend : {"shm", "file"}) a_child_of_fork_closes_nothing(path + "." + backend, backend);
}

// Transactions that are kept past their lambda, which the checker does not allow: `kept STORE`.
// Whatever keeps one, and whichever transaction runs when it is used, the use is refused, and
// changes nothing.
#include "shop.hpp"

#include "require.hpp"

#include <everbyte/std.hpp>

#include <coroutine>
#include <exception>
#include <functional>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

using stock::shop;
using enum everbyte::error_kind;

struct node {
  std::int64_t value;
};
EVERBYTE_FIELDS(node, value)

struct roots {
  shop::counter counter;
  everbyte::object<node, shop> root;
  shop::make_persistent<std::vector<int>> numbers;
  everbyte::pointer_t<node, shop> made;
};

using action = std::function<void()>;

void must_be_stale(const action& use) { must_refuse(invalid, "the transaction has ended, or belongs to another thread", use); }

// Every way to use a transaction.
template <class Transaction>
std::vector<action> uses_of(Transaction& t, roots& all) {
  return {
      [&t, &all] { all.counter.add(t, 100); },
      [&t, &all] { all.root.mut(t)->value = 100; },
      [&t, &all] { *all.made.mut(t, &node::value) = 100; },
      [&t] { t.make(node{100}); },
      [&t, &all] { t.destroy(all.made); },
      [&t, &all] { all.numbers.push_back(t, 100); },
      [&t, &all] { all.numbers.mut(t, 0) = 100; },
  };
}

// One lambda, whose parameter is at the same place of the stack each time.
void once(roots& all, std::vector<action>& kept) {
  shop::txn([&](auto& t) {
    if (kept.empty()) {
      kept = uses_of(t, all);
    } else {
      for (const action& use : kept) must_be_stale(use);
    }
    all.counter.add(t, 1);
    all.root.mut(t)->value += 1;
  });
}

void functions_keep_it(roots& all) {
  std::vector<action> kept;
  for (int round = 0; round < 50; ++round) {
    once(all, kept);
    for (const action& use : kept) must_be_stale(use);
  }
  // Not caught, it rolls the later transaction back.
  must_be_stale([&] {
    shop::txn([&](auto& t) {
      all.counter.add(t, 1);
      kept.front()();
    });
  });
  std::thread([&] {
    for (const action& use : kept) must_be_stale(use);
    once(all, kept);
  }).join();
  REQUIRE(all.counter.value() == 51 && all.root->value == 51);
}

// A transaction that runs, used by a thread that has as many of its own behind it.
void another_thread_has_it(roots& all) {
  shop::txn([&](auto& t) {
    auto uses = uses_of(t, all);
    std::thread([&] {
      for (int round = 0; round < 100; ++round) {
        shop::txn([&](auto&) { must_be_stale(uses.front()); });
      }
    }).join();
  });
}

template <class Transaction>
struct holder {
  static inline Transaction* at = nullptr;
};

void a_static_variable_keeps_it(roots& all) {
  for (int round = 0; round < 2; ++round) {
    shop::txn([&](auto& t) {
      auto& kept = holder<std::remove_reference_t<decltype(t)>>::at;
      if (kept != nullptr) {
        REQUIRE(kept != &t);
        must_be_stale([&] { all.counter.add(*kept, 1); });
      }
      kept = &t;
    });
  }
}

template <class Transaction>
std::optional<std::reference_wrapper<Transaction>>& optional_of(Transaction&) {
  static std::optional<std::reference_wrapper<Transaction>> kept;
  return kept;
}

void an_optional_keeps_it(roots& all) {
  for (int round = 0; round < 2; ++round) {
    shop::txn([&](auto& t) {
      auto& kept = optional_of(t);
      if (kept) must_be_stale([&] { kept->get().make(node{1}); });
      kept = t;
      all.root.mut(kept->get())->value += 1;
    });
  }
  REQUIRE(all.root->value == 53);
}

struct steps {
  struct promise_type {
    steps get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { failed = std::current_exception(); }
    std::exception_ptr failed{};
  };
  std::coroutine_handle<promise_type> frame;

  void resume() {
    frame.resume();
    if (frame.promise().failed) std::rethrow_exception(frame.promise().failed);
  }
};

template <class Transaction>
steps in_two_steps(Transaction& t, roots& all) {
  all.counter.add(t, 1);
  co_await std::suspend_always{};
  all.counter.add(t, 1);
}

// Its first step runs in the transaction, its second one outside of all or in another one.
void a_coroutine_keeps_it(roots& all) {
  for (bool is_within : {false, true}) {
    std::optional<steps> begun;
    shop::txn([&](auto& t) {
      begun = in_two_steps(t, all);
    });
    if (is_within) {
      shop::txn([&](auto&) { must_be_stale([&] { begun->resume(); }); });
    } else {
      must_be_stale([&] { begun->resume(); });
    }
    begun->frame.destroy();
  }
  REQUIRE(all.counter.value() == 53);
}

// The parameter of an inner lambda is the transaction around it, as long as that runs.
void an_inner_one_is_the_outer_one(roots& all) {
  action kept;
  shop::txn([&](auto&) {
    shop::txn([&](auto& inner) { kept = [&] { all.counter.add(inner, 1); }; });
    kept();
  });
  REQUIRE(all.counter.value() == 54);
  must_be_stale(kept);
}

int main(int, char** words) {
  shop pool(words[1], {.create = true});
  roots all{pool.root<shop::counter>("count"), pool.cpp_root<node>("node"), pool.root<shop::make_persistent<std::vector<int>>>("numbers"), {}};
  shop::txn([&](auto& t) { all.made = t.make(node{1}), all.numbers.push_back(t, 1); });
  functions_keep_it(all);
  another_thread_has_it(all);
  a_static_variable_keeps_it(all);
  an_optional_keeps_it(all);
  a_coroutine_keeps_it(all);
  an_inner_one_is_the_outer_one(all);
  REQUIRE(all.made->value == 1 && all.numbers.size() == 1 && all.numbers[0] == 1);
}

// The volatile and the persistent form of a list, a tree and a map do the same: lines STORE, twice.
#include "persistent/list.hpp"
#include "persistent/map.hpp"
#include "persistent/tree.hpp"

#include "require.hpp"

#include <vector>

namespace plain {
#include "volatile/list.hpp"
#include "volatile/map.hpp"
#include "volatile/tree.hpp"
}  // namespace plain

using stock::shop;

// The volatile forms are never freed.
extern "C" const char* __asan_default_options() { return "detect_leaks=0"; }

std::vector<std::uint64_t> all_of(const auto& of, const auto& in) {
  std::vector<std::uint64_t> found;
  each(of, [&](std::int64_t value) { found.push_back(static_cast<std::uint64_t>(value)); });
  auto seen = [&](std::uint64_t key, std::uint64_t value) { found.insert(found.end(), {key, value}); };
  each(in, seen);
  return found;
}

int main(int, char** words) {
  shop pool(words[1], {.create = true});
  auto numbers = pool.cpp_root<list>("list").pointer();
  auto ordered = pool.cpp_root<tree>("tree").pointer();
  auto hashed = pool.cpp_root<map>("map").pointer();
  plain::list plain_numbers{};
  plain::tree plain_ordered{};
  plain::map plain_hashed{};
  // The numbers and entries of an earlier run.
  each(numbers, [&](std::int64_t value) { append(&plain_numbers, value); });
  auto known = [&](std::uint64_t key, std::uint64_t value) { insert(&plain_ordered, key, value); };
  each(ordered->top, known);
  for (auto bucket : hashed->buckets) {
    for (auto one = bucket; one; one = one->next) insert(&plain_hashed, one->key, one->value);
  }

  for (std::uint64_t key : {5u, 2u, 9u, 2u, 7u, 1u, 9u, 40u}) {
    append(&plain_numbers, static_cast<std::int64_t>(key));
    push(&plain_numbers, -1);
    reverse(&plain_numbers);
    auto old = insert(&plain_ordered, key, key * 3);
    auto other = insert(&plain_hashed, key, key * 2);
    shop::txn([&](auto& t) {
      append(t, numbers, static_cast<std::int64_t>(key));
      push(t, numbers, -1);
      reverse(t, numbers);
      REQUIRE(insert(t, ordered, key, key * 3) == old);
      REQUIRE(insert(t, hashed, key, key * 2) == other);
    });
  }
  auto first = pop(&plain_numbers);
  auto nine = remove(&plain_hashed, 9);
  shop::txn([&](auto& t) { REQUIRE(pop(t, numbers) == first && remove(t, hashed, 9) == nine && !remove(t, hashed, 9)); });
  REQUIRE(all_of(numbers, ordered->top) == all_of(&plain_numbers, plain_ordered.top));
  REQUIRE(hashed->size == plain_hashed.size && get(hashed, 40) == get(&plain_hashed, 40) && get(ordered, 7) == 21u);
}

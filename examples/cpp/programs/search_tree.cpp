// A binary search tree: search_tree STORE puts a thousand keys, in a scattered order, and removes
// every second one, each in a transaction of its own.
#include "shop.hpp"

#include "require.hpp"

#include <iostream>

using stock::shop;

int main(int, char** words) {
  shop pool(words[1], {.create = true});
  auto tree = pool.root<shop::search_tree>("tree");
  int added = 0, removed = 0;
  for (std::uint64_t number = 0; number < 1000; ++number) {
    std::uint64_t key = number * 7 % 1000;
    auto old = shop::txn([&](auto& t) { return tree.insert(t, key, key * key); });
    if (!old) ++added;
  }
  for (std::uint64_t key = 1; key < 1000; key += 2) {
    auto gone = shop::txn([&](auto& t) { return tree.remove(t, key); });
    REQUIRE(gone == key * key);
    ++removed;
  }
  for (std::uint64_t key = 0; key < 1000; ++key) {
    REQUIRE(tree.get(key) == (key % 2 == 0 ? std::optional(key * key) : std::nullopt));
  }
  std::cout << added << " keys new, " << removed << " removed, least " << tree.least().value() << '\n';
}

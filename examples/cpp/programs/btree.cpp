// A B+tree of order 8, compiled for numbers: btree STORE puts a thousand keys in one transaction,
// and takes a change of all of them back.
#include "shop.hpp"

#include "require.hpp"

#include <iostream>
#include <stdexcept>

using stock::shop;

int main(int, char** words) {
  shop pool(words[1], {.create = true});
  auto tree = pool.root<shop::btree8>("tree");
  auto put = [&](auto& t, std::uint64_t value) {
    int added = 0;
    for (std::uint64_t key = 0; key < 1000; ++key) added += tree.insert(t, key * 7 % 1000, value + key * 7 % 1000);
    return added;
  };
  int added = shop::txn([&](auto& t) { return put(t, 0); });
  try {
    shop::txn([&](auto& t) {
      put(t, 5);
      REQUIRE(tree.remove(t, 7) == 12u && !tree.get(7));
      throw std::runtime_error("taken back");
    });
  } catch (const std::runtime_error&) {
  }
  for (std::uint64_t key = 0; key < 1000; ++key) REQUIRE(tree.get(key) == key);
  std::cout << added << " keys new, " << tree.height() << " levels\n";
}

// Keys in a B+tree that is compiled for numbers, and in a map over classes of C++:
// `blocks STORE TREE MAP` puts so many new keys into each.
#include "shop.hpp"

#include <everbyte/std.hpp>

#include <map>
#include <string>

using stock::shop;

int main(int, char** words) {
  shop pool(words[1], {.create = true});
  auto tree = pool.root<shop::btree8>("tree");
  auto map = pool.root<shop::make_persistent<std::map<std::uint64_t, std::uint64_t>>>("map");
  const std::uint64_t in_tree = std::stoull(words[2]), in_map = std::stoull(words[3]);
  shop::txn([&](auto& t) {
    for (std::uint64_t key = 0; key < in_tree; ++key) tree.insert(t, key * 7 % 1000, key);
    for (std::uint64_t key = 0; key < in_map; ++key) map.emplace(t, key * 7 % 1000, key);
  });
}

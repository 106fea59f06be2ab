// A search tree: numbers by number, in order.
#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include "ptr.hpp"

struct tree_node {
  std::uint64_t key;
  std::uint64_t value;
  std::array<ptr<tree_node>, 2> parts;
};
EVERBYTE_FIELDS(tree_node, key, value, parts)

struct tree {
  ptr<tree_node> top;
};
EVERBYTE_FIELDS(tree, top)

// Sets the value of `key`; returns the old one.
inline std::optional<std::uint64_t> insert(auto& t, ptr<tree> all, std::uint64_t key, std::uint64_t value) {
  auto at = all->top;
  decltype(at) parent = nullptr;
  while (at && at->key != key) {
    parent = at;
    at = at->parts[key > at->key];
  }
  if (at) return std::exchange(at.mut(t)->value, value);
  auto added = t.make(tree_node{key, value, {}});
  if (parent) {
    parent.mut(t)->parts[key > parent->key] = added;
  } else {
    all.mut(t)->top = added;
  }
  return std::nullopt;
}

// The value of `key`.
inline std::optional<std::uint64_t> get(ptr<tree> all, std::uint64_t key) {
  for (auto at = all->top; at; at = at->parts[key > at->key]) {
    if (at->key == key) return at->value;
  }
  return std::nullopt;
}

// Calls `seen` with every entry, in order.
template <class F>
void each(ptr<tree_node> at, F& seen) {
  if (!at) return;
  each(at->parts[0], seen);
  seen(at->key, at->value);
  each(at->parts[1], seen);
}

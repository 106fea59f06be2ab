// A search tree: numbers by number, in order.
#include <array>
#include <cstdint>
#include <optional>
#include <utility>

struct tree_node {
  std::uint64_t key;
  std::uint64_t value;
  std::array<tree_node*, 2> parts;
};

struct tree {
  tree_node* top;
};

// Sets the value of `key`; returns the old one.
inline std::optional<std::uint64_t> insert(tree* all, std::uint64_t key, std::uint64_t value) {
  auto at = all->top;
  decltype(at) parent = nullptr;
  while (at && at->key != key) {
    parent = at;
    at = at->parts[key > at->key];
  }
  if (at) return std::exchange(at->value, value);
  auto added = new tree_node{key, value, {}};
  if (parent) {
    parent->parts[key > parent->key] = added;
  } else {
    all->top = added;
  }
  return std::nullopt;
}

// The value of `key`.
inline std::optional<std::uint64_t> get(const tree* all, std::uint64_t key) {
  for (auto at = all->top; at; at = at->parts[key > at->key]) {
    if (at->key == key) return at->value;
  }
  return std::nullopt;
}

// Calls `seen` with every entry, in order.
template <class F>
void each(const tree_node* at, F& seen) {
  if (!at) return;
  each(at->parts[0], seen);
  seen(at->key, at->value);
  each(at->parts[1], seen);
}

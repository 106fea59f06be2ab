// A hash map of numbers.
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include "ptr.hpp"

struct map_node {
  std::uint64_t key;
  std::uint64_t value;
  ptr<map_node> next;
};
EVERBYTE_FIELDS(map_node, key, value, next)

struct map {
  std::array<ptr<map_node>, 32> buckets;
  std::size_t size;
};
EVERBYTE_FIELDS(map, buckets, size)

inline std::size_t place(std::uint64_t key) {
  return key * 0x9e3779b97f4a7c15u >> 59;
}

// Takes the value of `key` away.
inline std::optional<std::uint64_t> remove(auto& t, ptr<map> all, std::uint64_t key) {
  auto at = all->buckets[place(key)];
  decltype(at) before = nullptr;
  for (; at && at->key != key; at = at->next) before = at;
  if (!at) return std::nullopt;
  if (before) {
    before.mut(t)->next = at->next;
  } else {
    all.mut(t)->buckets[place(key)] = at->next;
  }
  auto value = at->value;
  t.destroy(at);
  --all.mut(t)->size;
  return value;
}

// Sets the value of `key`; returns the old one.
inline std::optional<std::uint64_t> insert(auto& t, ptr<map> all, std::uint64_t key, std::uint64_t value) {
  auto old = remove(t, all, key);
  all.mut(t)->buckets[place(key)] = t.make(map_node{key, value, all->buckets[place(key)]});
  ++all.mut(t)->size;
  return old;
}

// The value of `key`.
inline std::optional<std::uint64_t> get(ptr<map> all, std::uint64_t key) {
  for (auto at = all->buckets[place(key)]; at; at = at->next) {
    if (at->key == key) return at->value;
  }
  return std::nullopt;
}

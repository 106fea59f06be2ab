// A hash map of numbers.
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

struct map_node {
  std::uint64_t key;
  std::uint64_t value;
  map_node* next;
};

struct map {
  std::array<map_node*, 32> buckets;
  std::size_t size;
};

inline std::size_t place(std::uint64_t key) {
  return key * 0x9e3779b97f4a7c15u >> 59;
}

// Takes the value of `key` away.
inline std::optional<std::uint64_t> remove(map* all, std::uint64_t key) {
  auto at = all->buckets[place(key)];
  decltype(at) before = nullptr;
  for (; at && at->key != key; at = at->next) before = at;
  if (!at) return std::nullopt;
  if (before) {
    before->next = at->next;
  } else {
    all->buckets[place(key)] = at->next;
  }
  auto value = at->value;
  delete at;
  --all->size;
  return value;
}

// Sets the value of `key`; returns the old one.
inline std::optional<std::uint64_t> insert(map* all, std::uint64_t key, std::uint64_t value) {
  auto old = remove(all, key);
  all->buckets[place(key)] = new map_node{key, value, all->buckets[place(key)]};
  ++all->size;
  return old;
}

// The value of `key`.
inline std::optional<std::uint64_t> get(const map* all, std::uint64_t key) {
  for (auto at = all->buckets[place(key)]; at; at = at->next) {
    if (at->key == key) return at->value;
  }
  return std::nullopt;
}

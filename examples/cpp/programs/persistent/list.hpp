// A list of numbers.
#include <cstdint>
#include <optional>
#include "ptr.hpp"

struct list_node {
  std::int64_t value;
  ptr<list_node> next;
};
EVERBYTE_FIELDS(list_node, value, next)

struct list {
  ptr<list_node> head;
};
EVERBYTE_FIELDS(list, head)

// Puts a number in front.
inline void push(auto& t, ptr<list> all, std::int64_t value) {
  all.mut(t)->head = t.make(list_node{value, all->head});
}

// Takes the first number away.
inline std::optional<std::int64_t> pop(auto& t, ptr<list> all) {
  auto gone = all->head;
  if (!gone) return std::nullopt;
  auto value = gone->value;
  all.mut(t)->head = gone->next;
  t.destroy(gone);
  return value;
}

// Puts a number at the end.
inline void append(auto& t, ptr<list> all, std::int64_t value) {
  auto added = t.make(list_node{value, nullptr});
  if (!all->head) {
    all.mut(t)->head = added;
    return;
  }
  auto last = all->head;
  while (last->next) last = last->next;
  last.mut(t)->next = added;
}

// Turns the list around.
inline void reverse(auto& t, ptr<list> all) {
  auto rest = all->head;
  all.mut(t)->head = nullptr;
  while (rest) {
    auto next = rest->next;
    rest.mut(t)->next = all->head;
    all.mut(t)->head = rest;
    rest = next;
  }
}

// Calls `seen` with every number.
template <class F>
void each(ptr<list> all, F&& seen) {
  for (auto one = all->head; one; one = one->next) seen(one->value);
}

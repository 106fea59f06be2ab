// A list of numbers.
#include <cstdint>
#include <optional>

struct list_node {
  std::int64_t value;
  list_node* next;
};

struct list {
  list_node* head;
};

// Puts a number in front.
inline void push(list* all, std::int64_t value) {
  all->head = new list_node{value, all->head};
}

// Takes the first number away.
inline std::optional<std::int64_t> pop(list* all) {
  auto gone = all->head;
  if (!gone) return std::nullopt;
  auto value = gone->value;
  all->head = gone->next;
  delete gone;
  return value;
}

// Puts a number at the end.
inline void append(list* all, std::int64_t value) {
  auto added = new list_node{value, nullptr};
  if (!all->head) {
    all->head = added;
    return;
  }
  auto last = all->head;
  while (last->next) last = last->next;
  last->next = added;
}

// Turns the list around.
inline void reverse(list* all) {
  auto rest = all->head;
  all->head = nullptr;
  while (rest) {
    auto next = rest->next;
    rest->next = all->head;
    all->head = rest;
    rest = next;
  }
}

// Calls `seen` with every number.
template <class F>
void each(const list* all, F&& seen) {
  for (auto one = all->head; one; one = one->next) seen(one->value);
}

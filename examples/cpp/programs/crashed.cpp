// The program that the explorer crashes: a shared object, whose functions its test calls. Its steps
// change a pool from constructors, callbacks and destructors, and open it for the first time.
// explored.cpp has them as a program of its own.
#include "shop.hpp"

#include <optional>
#include <stdexcept>
#include <utility>

using stock::shop;

// Its constructor makes the next one in the pool.
struct link {
  std::uint64_t value;
  everbyte::pointer_t<link, shop> next;

  template <class Transaction>
  link(Transaction& t, std::uint64_t from, std::uint64_t to, everbyte::pointer_t<link, shop> last) : value(from), next(last) {
    if (from < to) next = t.make(std::in_place_type<link>, t, from + 1, to, last);
  }
};
EVERBYTE_FIELDS(link, value, next)

// Its destructor makes a link, and destroys the next one.
struct guard {
  std::uint64_t value;
  everbyte::pointer_t<guard, shop> next;

  guard(std::uint64_t of, everbyte::pointer_t<guard, shop> behind) : value(of), next(behind) {}
  guard(const guard&) = delete;
  guard& operator=(const guard&) = delete;
  ~guard();
};
EVERBYTE_FIELDS(guard, value, next)

struct all_of_it {
  std::uint64_t hashed;
  std::uint64_t visited;
  everbyte::pointer_t<link, shop> links;
  everbyte::pointer_t<guard, shop> guards;
};
EVERBYTE_FIELDS(all_of_it, hashed, visited, links, guards)

// Its hash notes in the pool that it ran, inside of a transaction.
struct key {
  std::uint64_t number;
  bool operator==(const key&) const = default;
};
EVERBYTE_FIELDS(key, number)
template <>
struct std::hash<key> {
  std::size_t operator()(const key& of) const;
};

struct opened {
  shop pool;
  everbyte::object<all_of_it, shop> all;
  shop::kv_store<key, std::uint64_t> table;
  bool is_changing = false;
};
std::optional<opened> now;

guard::~guard() {
  shop::txn([this](auto& t) {
    auto added = t.make(std::in_place_type<link>, t, value, value, now->all->links);
    *now->all.mut(t, &all_of_it::links) = added;
    if (next) t.destroy(next);
  });
  value = 0;
}

std::size_t std::hash<key>::operator()(const key& of) const {
  if (of.number == 13) throw std::runtime_error("not hashed");
  if (now && now->is_changing) shop::txn([&](auto& t) { *now->all.mut(t, &all_of_it::hashed) = of.number; });
  return of.number;
}

void open_roots(shop pool) {
  auto all = pool.cpp_root<all_of_it>("all");
  auto table = pool.root<shop::kv_store<key, std::uint64_t>>("table");
  now.emplace(opened{std::move(pool), all, table});
}

extern "C" void crashed_open() { open_roots(shop("of the explorer")); }

extern "C" void crashed_close() { now.reset(); }

template <class Transaction>
void step_in(Transaction& t, std::string_view step) {
  auto& all = now->all;
  if (step == "constructor" || step == "throw in a constructor") {
    auto made = t.make(std::in_place_type<link>, t, 1u, 3u, all->links);
    *all.mut(t, &all_of_it::links) = made;
  } else if (step == "hash" || step == "throw in a hash") {
    now->table.put(t, key{4}, 40u);
    now->table.put(t, key{5}, 50u);
    if (step == "throw in a hash") now->table.put(t, key{13}, 130u);
  } else if (step == "visit") {
    now->table.each([&](const key&, std::uint64_t value) { *all.mut(t, &all_of_it::visited) += value; });
  } else if (step == "guards") {
    auto second = t.make(std::in_place_type<guard>, 8u, nullptr);
    auto first = t.make(std::in_place_type<guard>, 7u, second);
    *all.mut(t, &all_of_it::guards) = first;
  } else {
    auto gone = all->guards;
    *all.mut(t, &all_of_it::guards) = nullptr;
    t.destroy(gone);
  }
  if (step.starts_with("throw")) throw std::runtime_error("rolled back");
}

// One transaction; false if it was rolled back.
extern "C" bool crashed_step(const char* words) {
  std::string_view step = words;
  bool is_done = true;
  now->is_changing = true;
  try {
    shop::txn([&](auto& t) { step_in(t, step); });
  } catch (const std::runtime_error&) {
    is_done = false;
  }
  now->is_changing = false;
  return is_done;
}

// The links, the guards, the values of the keys 4 and 5 (0: none), and what callbacks have left; at
// most `size` numbers.
extern "C" std::size_t crashed_found(std::uint64_t* out, std::size_t size) {
  std::size_t count = 0;
  auto add = [&](std::uint64_t value) {
    if (count < size) out[count++] = value;
  };
  for (auto at = now->all->links; at && count < size; at = at->next) add(at->value);
  add(1000);
  for (auto at = now->all->guards; at && count < size; at = at->next) add(at->value);
  add(1001);
  for (std::uint64_t number : {4u, 5u}) add(now->table.get(key{number}).value_or(0));
  add(now->all->hashed), add(now->all->visited);
  return count;
}

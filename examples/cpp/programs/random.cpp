// Random transactions beside containers of std: `random STORE COUNT` compares the pool with them,
// runs COUNT more transactions, and compares again. The number of transactions that the pool has
// seen decides the next one, so a process that is killed leaves a state that the next one expects.
#include "shop.hpp"

#include "require.hpp"

#include <cinttypes>
#include <deque>
#include <map>
#include <stdexcept>
#include <vector>

using stock::shop;

struct item {
  std::uint64_t value;
  everbyte::pointer_t<item, shop> next;
};
EVERBYTE_FIELDS(item, value, next)

struct items {
  std::uint32_t size;
  everbyte::pointer_t<item, shop> head;
};
EVERBYTE_FIELDS(items, size, head)

// The pool's objects.
struct kept {
  shop::counter steps;
  shop::kv_store<std::uint64_t, double> table;
  shop::visits series;
  everbyte::object<items, shop> list;
};

// The same in containers of std.
struct model {
  std::map<std::uint64_t, double> table;
  std::vector<std::uint32_t> series;
  std::deque<std::uint64_t> list;
};

std::uint64_t mixed(std::uint64_t seed) {
  seed = (seed ^ (seed >> 30)) * 0xbf58476d1ce4e5b9u;
  seed = (seed ^ (seed >> 27)) * 0x94d049bb133111ebu;
  return seed ^ (seed >> 31);
}

// The changes of one transaction; `change` gets a kind and a number.
template <class Change>
void changes_of(std::uint64_t step, Change&& change) {
  std::uint64_t random = mixed(step + 1);
  for (std::uint64_t count = random % 4 + 1; count > 0; --count) {
    random = mixed(random);
    change(random % 64, random >> 8);
  }
}

void step_of_model(model& all, std::uint64_t step) {
  changes_of(step, [&](std::uint64_t kind, std::uint64_t number) {
    if (kind == 0) {
      all.table.clear();
    } else if (kind < 20) {
      all.table[number % 50] = static_cast<double>(number);
    } else if (kind < 32) {
      all.series.push_back(static_cast<std::uint32_t>(number));
    } else if (kind < 46) {
      all.list.push_front(number);
    } else if (kind < 60) {
      if (!all.list.empty()) all.list.pop_front();
    } else {
      for (auto& one : all.list) one *= 3;
    }
  });
}

template <class Transaction>
void step_of_pool(Transaction& t, const kept& all, std::uint64_t step) {
  changes_of(step, [&](std::uint64_t kind, std::uint64_t number) {
    if (kind == 0) {
      all.table.clear(t);
    } else if (kind < 20) {
      all.table.put(t, number % 50, static_cast<double>(number));
    } else if (kind < 32) {
      all.series.push(t, static_cast<std::uint32_t>(number));
    } else if (kind < 46) {
      auto made = t.make(item{number, all.list->head});
      *all.list.mut(t) = items{all.list->size + 1, made};
    } else if (kind < 60) {
      auto first = all.list->head;
      if (!first) return;
      auto changed = all.list.mut(t);
      changed->head = first->next;
      changed->size -= 1;
      t.destroy(first);
    } else {
      for (auto one = all.list->head; one; one = one->next) *one.mut(t, &item::value) *= 3;
    }
  });
  all.steps.add(t, 1);
}

void require_equal(const kept& all, const model& expected) {
  REQUIRE(all.table.size() == expected.table.size());
  std::map<std::uint64_t, double> found;
  all.table.each([&](std::uint64_t key, double value) { found[key] = value; });
  REQUIRE(found == expected.table);
  REQUIRE(all.series.size() == expected.series.size());
  for (std::size_t index = 0; index < expected.series.size(); ++index) REQUIRE(all.series.at(index) == expected.series[index]);
  REQUIRE(all.list->size == expected.list.size());
  auto at = all.list->head;
  for (std::uint64_t value : expected.list) {
    REQUIRE(at && at->value == value);
    at = at->next;
  }
  REQUIRE(!at);
}

int main(int, char** words) {
  shop pool(words[1], {.create = true});
  kept all{pool.root<shop::counter>("steps"), pool.root<shop::kv_store<std::uint64_t, double>>("table"),
           pool.root<shop::visits>("series"), pool.cpp_root<items>("list")};
  model expected;
  std::uint64_t done = static_cast<std::uint64_t>(all.steps.value()), end = done + std::strtoull(words[2], nullptr, 10);
  for (std::uint64_t step = 0; step < done; ++step) step_of_model(expected, step);
  require_equal(all, expected);
  for (std::uint64_t step = done; step < end; ++step) {
    if (step % 7 == 0) {
      try {
        shop::txn([&](auto& t) {
          step_of_pool(t, all, step);
          throw std::runtime_error("rolled back");
        });
      } catch (const std::runtime_error&) {
      }
    }
    shop::txn([&](auto& t) { step_of_pool(t, all, step); });
    step_of_model(expected, step);
  }
  require_equal(all, expected);
  std::printf("%" PRIu64 "\n", end);
}

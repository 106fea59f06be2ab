// Random transactions beside containers of std: `random STORE COUNT` compares the pool with them,
// runs COUNT more transactions, and compares again. The number of transactions that the pool has
// seen decides the next one, so a process that is killed leaves a state that the next one expects.
// `random STORE COUNT AT` is to be killed: it says when it has compared, and how many transactions
// there were after each one; the AT-th waits in its lambda, if that is not 0.
#include "shop.hpp"

#include "require.hpp"

#include <everbyte/std.hpp>

#include <algorithm>
#include <cinttypes>
#include <deque>
#include <iterator>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <unordered_set>
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

template <class Of>
using in_pool = shop::make_persistent<Of>;
struct itself {
  template <class Of>
  using type = Of;
};
struct persistent {
  template <class Of>
  using type = in_pool<Of>;
};

// Each container of std, or its persistent form.
template <class Form>
struct containers {
  template <class Of>
  using in = typename Form::template type<Of>;

  in<std::vector<item>> items;
  in<std::vector<std::string>> texts;
  in<std::string> text;
  in<std::deque<std::uint32_t>> both_ends;
  in<std::list<std::string>> chain;
  in<std::map<std::string, std::uint64_t>> by_name;
  in<std::map<std::int32_t, std::string>> names;
  in<std::set<double>> ordered;
  in<std::unordered_map<std::uint64_t, item>> table;
  in<std::unordered_map<std::string, std::string>> aliases;
  in<std::unordered_set<std::string>> words;
};

// The pool's objects.
struct kept {
  shop::counter steps;
  shop::kv_store<std::uint64_t, double> table;
  shop::visits series;
  everbyte::object<items, shop> list;
  shop::search_tree tree;
  shop::btree8 btree;
  shop::inventory goods;
  shop::kv_store<std::string, std::string> texts;
  shop::list<std::string> stack;
  shop::word_count words;
  shop::tally tally;
  containers<persistent> all;
};

// The same in containers of std.
struct model {
  std::map<std::uint64_t, double> table;
  std::vector<std::uint32_t> series;
  std::deque<std::uint64_t> list;
  std::map<std::uint64_t, std::uint64_t> tree, btree;
  std::map<std::string, std::uint64_t> goods;
  std::map<std::string, std::string> texts;
  std::deque<std::string> stack;
  std::map<std::string, std::uint64_t> words;
  std::int64_t tally = 0;
  containers<itself> all;
};

std::string name_of(std::uint64_t small) { return small == 0 ? std::string() : std::string(small % 30, 'n') + std::to_string(small); }

template <class Of, class Key>
std::optional<typename Of::mapped_type> found_in(const Of& of, const Key& key) {
  auto at = of.find(key);
  return at == of.end() ? std::nullopt : std::optional(at->second);
}

// One change of what stands for a vessel; and of the vessel, whose result is compared with what it
// had before.
void change_of_model(model& all, std::uint64_t kind, std::uint64_t number) {
  auto small = number % 40, place = number / 64;
  auto name = name_of(small);
  if (kind < 6) all.tree[place % 60] = number;
  else if (kind < 10) all.tree.erase(place % 60);
  else if (kind < 18) all.btree[place % 90] = number;
  else if (kind < 22) all.btree.erase(place % 90);
  else if (kind < 26) all.goods[name] += place % 9;
  else if (kind < 28) all.goods[name] /= 2;
  else if (kind < 32) all.texts[name] = std::to_string(number);
  else if (kind == 32 && place % 8 == 0) all.texts.clear();
  else if (kind < 36) all.stack.push_front(name);
  else if (kind < 39 && !all.stack.empty()) all.stack.pop_front();
  else if (kind < 43) all.words[name] += place % 5;
  else all.tally += place % 2 == 0 ? 1 : -1;
}

template <class Transaction>
void change_of_pool(Transaction& t, kept& all, std::uint64_t kind, std::uint64_t number) {
  auto small = number % 40, place = number / 64;
  auto name = name_of(small);
  if (kind < 6) {
    auto before = all.tree.get(place % 60);
    REQUIRE(all.tree.insert(t, place % 60, number) == before);
  } else if (kind < 10) {
    auto before = all.tree.get(place % 60);
    REQUIRE(all.tree.remove(t, place % 60) == before && !all.tree.get(place % 60));
  } else if (kind < 18) {
    bool is_new = !all.btree.get(place % 90);
    REQUIRE(all.btree.insert(t, place % 90, number) == is_new);
  } else if (kind < 22) {
    auto before = all.btree.get(place % 90);
    REQUIRE(all.btree.remove(t, place % 90) == before && !all.btree.get(place % 90));
  } else if (kind < 26) {
    all.goods.put(t, name, place % 9);
  } else if (kind < 28) {
    auto before = all.goods.count(name).value_or(0);
    REQUIRE(all.goods.take(t, name, before - before / 2) == before / 2);
  } else if (kind < 32) {
    bool is_new = !all.texts.get(name);
    REQUIRE(all.texts.put(t, name, std::to_string(number)) == is_new);
  } else if (kind == 32 && place % 8 == 0) {
    all.texts.clear(t);
  } else if (kind < 36) {
    all.stack.push_front(t, name);
    REQUIRE(all.stack.contains(name));
  } else if (kind < 39 && all.stack.size() > 0) {
    auto before = all.stack.front();
    REQUIRE(all.stack.pop_front(t) == before);
  } else if (kind < 43) {
    all.words.add(t, name, place % 5);
  } else {
    auto before = all.tally.value(t);
    auto change = place % 2 == 0 ? 1 : -1;
    REQUIRE(all.tally.step(t, change == 1) == before + change);
  }
}

void require_equal_vessels(const kept& all, const model& expected) {
  for (std::uint64_t key = 0; key < 60; ++key) REQUIRE(all.tree.get(key) == found_in(expected.tree, key));
  for (std::uint64_t key = 0; key < 90; ++key) REQUIRE(all.btree.get(key) == found_in(expected.btree, key));
  REQUIRE(all.tree.least() == (expected.tree.empty() ? std::nullopt : std::optional(expected.tree.begin()->first)));
  REQUIRE(all.goods.kinds() == expected.goods.size() && all.texts.size() == expected.texts.size());
  REQUIRE(all.goods.first() == (expected.goods.empty() ? "" : expected.goods.begin()->first));
  std::map<std::string, std::string> texts;
  all.texts.each([&](std::string_view key, std::string_view value) { texts[std::string(key)] = value; });
  REQUIRE(texts == expected.texts && all.stack.size() == expected.stack.size());
  REQUIRE(all.stack.front() == (expected.stack.empty() ? std::nullopt : std::optional(expected.stack.front())));
  shop::txn([&](auto& t) {
    for (std::uint64_t small = 0; small < 40; ++small) {
      auto name = name_of(small);
      REQUIRE(all.goods.count(name) == found_in(expected.goods, name) && all.texts.get(name) == found_in(expected.texts, name));
      REQUIRE(all.words.count(t, name) == found_in(expected.words, name).value_or(0));
      bool is_there = std::find(expected.stack.begin(), expected.stack.end(), name) != expected.stack.end();
      REQUIRE(all.stack.contains(name) == is_there);
    }
    REQUIRE(all.words.size(t) == expected.words.size() && all.tally.value(t) == expected.tally);
  });
}

// One change of any container, in both forms; that of a persistent one takes the transaction.
template <class Form, class... In>
void change_of_container(containers<Form>& all, std::uint64_t kind, std::uint64_t number, In&... t) {
  auto small = number % 40, place = number / 64;
  auto name = name_of(small);
  auto at = [&](auto& of) { return std::next(of.begin(), static_cast<std::ptrdiff_t>(place % (of.size() + 1))); };
  auto of = [&](auto& one) { return std::next(one.begin(), static_cast<std::ptrdiff_t>(place % one.size())); };
  switch (kind) {
    case 0:
      if (place % 4 == 0 && !all.items.empty()) return all.items.push_back(t..., all.items.front());
      return all.items.push_back(t..., item{number, {}});
    case 1: all.items.insert(t..., at(all.items), item{number, {}}); return;
    case 2:
      if (!all.items.empty()) all.items.erase(t..., of(all.items));
      return;
    case 3:
      if (!all.items.empty()) all.items.pop_back(t...);
      return;
    case 4: all.texts.insert(t..., at(all.texts), name); return;
    case 5:
      if (!all.texts.empty()) all.texts.erase(t..., of(all.texts));
      return;
    case 6: all.text.append(t..., name); return;
    case 7: all.text.insert(t..., place % (all.text.size() + 1), name); return;
    case 8: all.text.erase(t..., place % (all.text.size() + 1), small); return;
    case 9: all.text.assign(t..., name); return;
    case 10: all.both_ends.push_front(t..., static_cast<std::uint32_t>(number)); return;
    case 11: all.both_ends.push_back(t..., static_cast<std::uint32_t>(number)); return;
    case 12:
      if (!all.both_ends.empty()) all.both_ends.pop_front(t...);
      return;
    case 13:
      if (!all.both_ends.empty()) all.both_ends.pop_back(t...);
      return;
    case 14: all.chain.insert(t..., at(all.chain), place % 4 == 0 && !all.chain.empty() ? *of(all.chain) : decltype(*of(all.chain))(name)); return;
    case 15:
      if (!all.chain.empty()) all.chain.erase(t..., of(all.chain));
      return;
    case 16: all.by_name.insert_or_assign(t..., name, number); return;
    case 17: REQUIRE(all.by_name.emplace(t..., name, number).first->first == name); return;
    case 18: all.by_name.erase(t..., name); return;
    case 19: all.names.insert_or_assign(t..., static_cast<std::int32_t>(small) - 20, name); return;
    case 20: {
      auto found = all.names.lower_bound(static_cast<std::int32_t>(small) - 20);
      if (found != all.names.end()) all.names.erase(t..., found);
      return;
    }
    case 21: all.ordered.insert(t..., static_cast<double>(small) / 3); return;
    case 22: all.ordered.erase(t..., static_cast<double>(small) / 3); return;
    case 23: all.table.insert_or_assign(t..., small, item{number, {}}); return;
    case 24: all.table.erase(t..., small); return;
    case 25: all.aliases.emplace(t..., name, std::to_string(number)); return;
    case 26:
      if (all.aliases.contains(name)) all.aliases.insert_or_assign(t..., name, all.aliases.at(name));
      all.aliases.insert_or_assign(t..., name, std::to_string(number));
      return;
    case 27: all.aliases.erase(t..., name); return;
    case 28: all.words.insert(t..., name); return;
    case 29: all.words.erase(t..., name); return;
    case 30:
      if (place % 8 == 0) all.items.clear(t...), all.names.clear(t...), all.words.clear(t...), all.texts.clear(t...);
      return;
    default:
      if constexpr (sizeof...(In) == 0) {
        if (!all.items.empty()) all.items[place % all.items.size()].value = number;
        if (all.table.contains(small)) all.table.at(small).value = number;
      } else {
        if (!all.items.empty()) all.items.mut(t..., place % all.items.size())->value = number;
        if (all.table.contains(small)) all.table.mut(t..., small)->value = number;
      }
  }
}

bool operator==(const item& one, const item& other) { return one.value == other.value; }

// Both, by their iterators.
void require_equal(const containers<persistent>& found, const containers<itself>& expected) {
  auto in_order = [](const auto& one, const auto& other) {
    REQUIRE(one.size() == other.size() && one.empty() == other.empty());
    auto next = other.begin();
    for (auto&& each : one) REQUIRE(each == *next++);
  };
  auto pairs = [](const auto& one, const auto& other) {
    REQUIRE(one.size() == other.size());
    auto next = other.begin();
    for (auto [key, value] : one) {
      REQUIRE(key == next->first && value == next->second);
      ++next;
    }
  };
  auto mapped = [](const auto& one, const auto& other) {
    REQUIRE(one.size() == other.size());
    std::size_t met = 0;
    for (auto [key, value] : one) {
      auto found_there = other.find(std::remove_cvref_t<decltype(other.begin()->first)>(key));
      REQUIRE(found_there != other.end() && found_there->second == value && one.at(key) == value);
      ++met;
    }
    REQUIRE(met == other.size());
  };
  in_order(found.items, expected.items);
  in_order(found.texts, expected.texts);
  REQUIRE(found.text == expected.text && found.text.str() == expected.text);
  in_order(found.both_ends, expected.both_ends);
  in_order(found.chain, expected.chain);
  pairs(found.by_name, expected.by_name);
  pairs(found.names, expected.names);
  in_order(found.ordered, expected.ordered);
  mapped(found.table, expected.table);
  mapped(found.aliases, expected.aliases);
  REQUIRE(found.words.size() == expected.words.size());
  std::size_t met = 0;
  for (std::string_view word : found.words) met += expected.words.count(std::string(word));
  REQUIRE(met == expected.words.size());
  // Against the order, too, and by bounds.
  auto last = expected.names.rbegin();
  for (auto at = found.names.end(); at != found.names.begin();) REQUIRE((*--at).first == (last++)->first);
  for (std::int32_t key = -21; key < 21; ++key) {
    auto lower = found.names.lower_bound(key), upper = found.names.upper_bound(key);
    auto lower_there = expected.names.lower_bound(key), upper_there = expected.names.upper_bound(key);
    REQUIRE((lower == found.names.end()) == (lower_there == expected.names.end()));
    REQUIRE((upper == found.names.end()) == (upper_there == expected.names.end()));
    REQUIRE(lower_there == expected.names.end() || lower->first == lower_there->first);
    REQUIRE(upper_there == expected.names.end() || upper->first == upper_there->first);
  }
  REQUIRE(std::equal(found.both_ends.begin(), found.both_ends.end(), expected.both_ends.begin()));
}

std::uint64_t mixed(std::uint64_t seed) {
  seed = (seed ^ (seed >> 30)) * 0xbf58476d1ce4e5b9u;
  seed = (seed ^ (seed >> 27)) * 0x94d049bb133111ebu;
  return seed ^ (seed >> 31);
}

// The changes of one transaction; `change` gets a kind and a number.
template <class Change>
void changes_of(std::uint64_t step, Change&& change) {
  std::uint64_t random = mixed(step + 1);
  for (std::uint64_t count = random % 6 + 1; count > 0; --count) {
    random = mixed(random);
    change(random % 144, random >> 8);
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
    } else if (kind < 64) {
      for (auto& one : all.list) one *= 3;
    } else if (kind >= 96) {
      change_of_model(all, kind - 96, number);
    } else {
      change_of_container(all.all, kind - 64, number);
    }
  });
}

template <class Transaction>
void step_of_pool(Transaction& t, kept& all, std::uint64_t step) {
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
    } else if (kind < 64) {
      for (auto one = all.list->head; one; one = one->next) *one.mut(t, &item::value) *= 3;
    } else if (kind >= 96) {
      change_of_pool(t, all, kind - 96, number);
    } else {
      change_of_container(all.all, kind - 64, number, t);
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
  require_equal_vessels(all, expected);
  require_equal(all.all, expected.all);
}

// Each under its name.
containers<persistent> opened(const shop& pool) {
  return {pool.root<in_pool<std::vector<item>>>("items"),
          pool.root<in_pool<std::vector<std::string>>>("texts"),
          pool.root<in_pool<std::string>>("text"),
          pool.root<in_pool<std::deque<std::uint32_t>>>("both_ends"),
          pool.root<in_pool<std::list<std::string>>>("chain"),
          pool.root<in_pool<std::map<std::string, std::uint64_t>>>("by_name"),
          pool.root<in_pool<std::map<std::int32_t, std::string>>>("names"),
          pool.root<in_pool<std::set<double>>>("ordered"),
          pool.root<in_pool<std::unordered_map<std::uint64_t, item>>>("hashed"),
          pool.root<in_pool<std::unordered_map<std::string, std::string>>>("aliases"),
          pool.root<in_pool<std::unordered_set<std::string>>>("words")};
}

void say(const char* what, std::uint64_t number) {
  std::printf("%s %" PRIu64 "\n", what, number);
  std::fflush(stdout);
}

int main(int count, char** words) {
  shop pool(words[1], {.create = true});
  kept all{pool.root<shop::counter>("steps"), pool.root<shop::kv_store<std::uint64_t, double>>("table"),
           pool.root<shop::visits>("series"), pool.cpp_root<items>("list"),
           pool.root<shop::search_tree>("tree"), pool.root<shop::btree8>("btree"), pool.root<shop::inventory>("goods"),
           pool.root<shop::kv_store<std::string, std::string>>("texts of a table"), pool.root<shop::list<std::string>>("stack"),
           pool.root<shop::word_count>("counted words"), pool.root<shop::tally>("tally"), opened(pool)};
  model expected;
  std::uint64_t done = static_cast<std::uint64_t>(all.steps.value()), end = done + std::strtoull(words[2], nullptr, 10);
  for (std::uint64_t step = 0; step < done; ++step) step_of_model(expected, step);
  require_equal(all, expected);
  std::uint64_t wait = count > 3 ? std::strtoull(words[3], nullptr, 10) : 0;
  if (count > 3) say("compared", done);
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
    shop::txn([&](auto& t) {
      step_of_pool(t, all, step);
      if (wait != 0 && step + 1 == done + wait) say("inside", step), std::getchar();
    });
    if (count > 3) say("step", step + 1);
    step_of_model(expected, step);
  }
  require_equal(all, expected);
  std::printf("%" PRIu64 "\n", end);
}

// The promises of the persistent containers of std, one function for each. First run:
// `containers STORE first`; a second process finds what it left: `containers STORE second`.
#include "shop.hpp"

#include "require.hpp"

#include <everbyte/std.hpp>

#include <deque>
#include <functional>
#include <iterator>
#include <list>
#include <map>
#include <ranges>
#include <set>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

using stock::shop;
using enum everbyte::error_kind;
template <class Of>
using in_pool = shop::make_persistent<Of>;

bool is_angry = false;
std::function<void()> when_asked;  // once, by the next comparison or hash

// A key with padding, whose functions may throw.
struct key {
  std::uint8_t shelf;
  std::uint32_t place;
  bool operator<(const key& other) const { return asked(shelf != other.shelf ? shelf < other.shelf : place < other.place); }
  bool operator==(const key& other) const { return asked(shelf == other.shelf && place == other.place); }
  static bool asked(bool result) {
    if (when_asked) std::exchange(when_asked, nullptr)();
    return is_angry ? throw std::runtime_error("angry") : result;
  }
};
EVERBYTE_FIELDS(key, shelf, place)
template <>
struct std::hash<key> {
  std::size_t operator()(const key& of) const { return key::asked(true) ? of.shelf * 31u + of.place : 0; }
};

template <class Action>
void must_throw(Action&& action) {
  bool was_caught = false;
  is_angry = true;
  try {
    action();
  } catch (const std::runtime_error& error) {
    was_caught = std::string(error.what()) == "angry";
  }
  is_angry = false;
  REQUIRE(was_caught);
}

// An exception of an order, a hash or an equality reaches the caller, and leaves no change.
template <class Map>
void an_exception_of_a_key_rolls_back(const Map& map) {
  shop::txn([&](auto& t) {
    for (std::uint32_t place = 0; place < 20; ++place) map.emplace(t, key{1, place}, place);
  });
  must_throw([&] { map.find(key{1, 2}); });
  must_throw([&] { shop::txn([&](auto& t) { map.emplace(t, key{1, 50}, 50); }); });
  must_throw([&] {
    shop::txn([&](auto& t) {
      is_angry = false;  // everbyte: allow(volatile) it makes an order throw
      map.clear(t);
      map.insert_or_assign(t, key{2, 1}, 1);
      is_angry = true;  // everbyte: allow(volatile) as above
      map.erase(t, key{2, 1});
    });
  });
  REQUIRE(map.size() == 20 && map.at(key{1, 19}) == 19 && !map.contains(key{2, 1}) && !map.contains(key{1, 50}));
  REQUIRE(static_cast<std::size_t>(std::distance(map.begin(), map.end())) == 20);
}

// A comparison or a hash that changes the container which asks it.
template <class Map>
void a_key_that_changes_its_container_is_refused(const Map& map) {
  auto refused = [&](auto&& asks) {
    must_refuse(panicked, "already borrowed", [&] {
      shop::txn([&](auto& t) {
        when_asked = [&] { map.clear(t); };  // everbyte: allow(kept) it ends in the same lambda
        asks(t);
      });
    });
    REQUIRE(!when_asked && map.size() == 20 && map.at(key{1, 19}) == 19);
  };
  refused([&](auto&) { map.find(key{1, 2}); });
  refused([&](auto& t) { map.emplace(t, key{1, 50}, 50); });
  refused([&](auto& t) { map.insert_or_assign(t, key{1, 2}, 50); });
  refused([&](auto& t) { map.erase(t, key{1, 2}); });
}

// The algorithms of std and ranges take the iterators for what they are.
template <class Of>
using iterator_of = typename in_pool<Of>::const_iterator;
static_assert(std::contiguous_iterator<iterator_of<std::vector<key>>> && std::contiguous_iterator<iterator_of<std::string>>);
static_assert(std::random_access_iterator<iterator_of<std::deque<key>>> && std::random_access_iterator<iterator_of<std::list<key>>>);
static_assert(std::random_access_iterator<iterator_of<std::vector<std::string>>>);
static_assert(std::bidirectional_iterator<iterator_of<std::map<key, std::string>>> && std::bidirectional_iterator<iterator_of<std::set<std::string>>>);
static_assert(!std::random_access_iterator<iterator_of<std::map<key, std::string>>>);
static_assert(std::forward_iterator<iterator_of<std::unordered_map<std::string, key>>> && std::forward_iterator<iterator_of<std::unordered_set<key>>>);
static_assert(!std::bidirectional_iterator<iterator_of<std::unordered_set<key>>>);
static_assert(std::ranges::contiguous_range<in_pool<std::vector<int>>> && std::ranges::random_access_range<in_pool<std::deque<std::string>>>);
static_assert(std::ranges::common_range<in_pool<std::map<int, int>>> && std::ranges::sized_range<in_pool<std::unordered_map<int, key>>>);

// Each element lies where its class may lie.
struct alignas(16) wide {
  std::uint64_t number, rest[5];
};
EVERBYTE_FIELDS(wide, number, rest)

void elements_are_aligned(const shop& pool) {
  // everbyte: allow(cast) to a number, which is compared alone
  auto lies = [](const wide& one) { return reinterpret_cast<std::uintptr_t>(&one) % alignof(wide) == 0; };
  auto all = pool.root<in_pool<std::vector<wide>>>("wide vector");
  auto both_ends = pool.root<in_pool<std::deque<wide>>>("wide deque");
  auto ordered = pool.root<in_pool<std::map<std::string, wide>>>("wide map");
  auto hashed = pool.root<in_pool<std::unordered_map<std::uint8_t, wide>>>("wide table");
  for (std::uint8_t round = 0; round < 20; ++round) {
    shop::txn([&](auto& t) {
      wide one{round, {}};
      all.push_back(t, one), both_ends.push_front(t, one);
      ordered.emplace(t, std::string(round, 'x'), one), hashed.emplace(t, round, one);
    });
    REQUIRE(lies(all.front()) && lies(all.back()) && lies(both_ends.front()) && lies(both_ends.back()));
    REQUIRE(lies(ordered.at(std::string(round, 'x'))) && lies(hashed.at(round)) && hashed.at(round).number == round);
  }
}

// `->` leads to the element in the pool, not to a copy.
void an_arrow_leads_to_the_element(const shop& pool) {
  auto both_ends = pool.root<in_pool<std::deque<wide>>>("arrow deque");
  auto map = pool.root<in_pool<std::map<int, wide>>>("arrow map");
  auto ordered = pool.root<in_pool<std::set<key>>>("arrow set");
  auto hashed = pool.root<in_pool<std::unordered_set<key>>>("arrow table");
  shop::txn([&](auto& t) {
    both_ends.push_back(t, wide{7, {1, 2}}), map.emplace(t, 1, wide{8, {}});
    ordered.insert(t, key{1, 2}), hashed.insert(t, key{1, 2});
  });
  const auto& rest = both_ends.begin()->rest;
  const auto& number = map.begin()->second.number;
  const auto &place = ordered.begin()->place, &hashed_place = hashed.begin()->place;
  REQUIRE(rest[1] == 2 && number == 8 && place == 2 && hashed_place == 2);
  REQUIRE(&rest == &both_ends.front().rest && &number == &map.at(1).number && &place == &(*ordered.begin()).place);
  REQUIRE(&both_ends.rbegin()->rest == &rest && &hashed_place == &(*hashed.find(key{1, 2})).place);
}

void an_absent_element_is_out_of_range(const in_pool<std::map<key, std::uint32_t>>& map, const in_pool<std::vector<int>>& numbers) {
  int caught = 0;
  auto try_it = [&](auto&& action) {
    try {
      action();
    } catch (const std::out_of_range&) {
      ++caught;
    }
  };
  try_it([&] { map.at(key{9, 9}); });
  try_it([&] { numbers.at(numbers.size()); });
  try_it([&] { shop::txn([&](auto& t) { numbers.mut(t, 1000); }); });
  try_it([&] { shop::txn([&](auto& t) { numbers.pop_back(t); }); });
  REQUIRE(caught == 4 && numbers.empty());
}

// Elements of the container itself are arguments of its changes.
void a_container_takes_its_own_elements(const in_pool<std::vector<int>>& numbers, const in_pool<std::vector<std::string>>& texts,
                                        const in_pool<std::string>& text) {
  shop::txn([&](auto& t) {
    numbers.push_back(t, 7);
    for (int round = 0; round < 200; ++round) numbers.push_back(t, numbers[0]);
    *numbers.mut(t, 200) = 8;
    for (int round = 0; round < 200; ++round) numbers.insert(t, numbers.begin(), numbers.back());
    text.assign(t, "ab");
    for (int round = 0; round < 8; ++round) text.append(t, text);
    text.insert(t, 1, text);
    texts.push_back(t, "");
    texts.push_back(t, "some");
    for (int round = 0; round < 40; ++round) texts.push_back(t, texts.back()), texts.push_front(t, texts.back());
    texts.set(t, 0, texts[0]);
    texts.set(t, 1, texts[1].substr(1));
  });
  REQUIRE(numbers.size() == 401 && numbers[199] == 8 && numbers[200] == 7 && numbers[399] == 7);
  REQUIRE(text.size() == 1024 && text.str().substr(0, 4) == "aaba" && text.find("bb") == 512);
  REQUIRE(texts.size() == 82 && texts[0] == "some" && texts[1] == "ome" && texts[40] == "" && texts.back() == "some");
}

// An element stays where it is while others come and go.
void elements_keep_their_places(const in_pool<std::unordered_map<std::string, std::string>>& words) {
  shop::txn([&](auto& t) { words.emplace(t, "", ""), words.emplace(t, "here", "it is"); });
  auto found = words.find("here");
  const char *name = found->first.data(), *value = words.at("here").data();
  shop::txn([&](auto& t) {
    for (int number = 0; number < 500; ++number) words.emplace(t, std::to_string(number), "x");
    for (int number = 0; number < 400; ++number) words.erase(t, std::to_string(number));
  });
  REQUIRE(words.find("here") == found && found->first.data() == name && words.at("here").data() == value);
  REQUIRE(words.size() == 102 && words.contains("") && words.at("").empty() && words.find("") != words.end());
}

// A walk may remove the element that it has left, or all of them.
void a_walk_removes_elements(const in_pool<std::unordered_map<std::string, std::string>>& words, const in_pool<std::map<key, std::uint32_t>>& map) {
  shop::txn([&](auto& t) {
    for (auto at = words.begin(); at != words.end();) at = at->second == "x" ? words.erase(t, at) : ++at;
    for (auto at = map.begin(); at != map.end();) at = at->second % 2 == 0 ? map.erase(t, at) : ++at;
  });
  REQUIRE(words.size() == 2 && map.size() == 10);
  auto last = map.end();
  REQUIRE((--last)->second == 19 && (--last)->second == 17 && map.upper_bound(key{1, 17}) == ++last);
  REQUIRE(map.lower_bound(key{0, 5}) == map.begin() && map.upper_bound(key{1, 19}) == map.end());
}

template <class Action>
void must_be_out_of_range(Action&& action) {
  bool was_caught = false;
  try {
    shop::txn([&](auto& t) { action(t); });
  } catch (const std::out_of_range&) {
    was_caught = true;
  }
  REQUIRE(was_caught);
}

// Results are std's, and places that are none are out of range.
void sequences_answer_as_those_of_std(const shop& pool) {
  auto numbers = pool.root<in_pool<std::vector<std::int16_t>>>("answers");
  auto text = pool.root<in_pool<std::string>>("text of answers");
  auto all = pool.root<in_pool<std::deque<int>>>("deque of answers");
  must_be_out_of_range([&](auto& t) { all.pop_front(t); });
  must_be_out_of_range([&](auto& t) { all.pop_back(t); });
  shop::txn([&](auto& t) {
    for (std::int16_t number = 0; number < 6; ++number) numbers.push_back(t, number), all.push_back(t, number);
    auto at = numbers.insert(t, numbers.begin() + 4, std::int16_t(40));
    REQUIRE(at == numbers.begin() + 4 && *at == 40 && numbers.size() == 7);
    at = numbers.erase(t, numbers.begin() + 1);
    REQUIRE(at == numbers.begin() + 1 && *at == 2);
    at = numbers.erase(t, numbers.begin() + 1, numbers.begin() + 3);
    REQUIRE(at == numbers.begin() + 1 && *at == 40 && numbers.size() == 4);
    text.assign(t, "abcdef");
    text.erase(t, 1, 2);
    REQUIRE(text == "adef");
    text.erase(t, 3);
    REQUIRE(text == "ade");
    text.insert(t, 3, "x");
    text.insert(t, 1, "y");
    text.push_back(t, 'z');
    REQUIRE(text == "aydexz" && text.find("d") == 2 && text[5] == 'z' && !text.empty());
    text.erase(t, text.size());
    auto place = all.insert(t, all.begin() + 2, 20);
    REQUIRE(*place == 20 && place - all.begin() == 2 && all.size() == 7);
    place = all.erase(t, place);
    REQUIRE(*place == 2 && place - all.begin() == 2);
    place = all.erase(t, all.begin() + 1, all.begin() + 3);
    REQUIRE(*place == 3 && place - all.begin() == 1 && all.size() == 4);
    all.set(t, 3, 50);
    all.push_front(t, -1);
    all.pop_back(t);
    all.pop_front(t);
  });
  REQUIRE((std::vector<std::int16_t>(numbers.begin(), numbers.end()) == std::vector<std::int16_t>{0, 40, 4, 5}));
  REQUIRE((std::vector<int>(all.begin(), all.end()) == std::vector<int>{0, 3, 4}) && all.front() == 0 && all.back() == 4);
  REQUIRE(*numbers.rbegin() == 5 && numbers.rend() - numbers.rbegin() == 4 && *--numbers.rend() == 0);
  REQUIRE((std::vector<int>(all.rbegin(), all.rend()) == std::vector<int>{4, 3, 0}));
  shop::txn([&](auto& t) {
    numbers.resize(t, 6, numbers.back());
    REQUIRE(numbers.size() == 6 && numbers[3] == 5 && numbers[5] == 5);
    numbers.resize(t, 2);
    REQUIRE(numbers.size() == 2 && numbers[1] == 40);
    numbers.resize(t, 3);
    REQUIRE(numbers.size() == 3 && numbers[2] == 0);
    numbers.assign(t, all.begin(), all.end());
    REQUIRE((std::vector<int>(numbers.begin(), numbers.end()) == std::vector<int>{0, 3, 4}));
  });
  must_be_out_of_range([&](auto& t) { text.insert(t, 7, "x"); });
  must_be_out_of_range([&](auto& t) { text.erase(t, 7); });
  must_be_out_of_range([&](auto& t) { all.set(t, 3, 1); });
  must_be_out_of_range([&](auto& t) { *all.mut(t, 3) = 1; });
  must_be_out_of_range([&](auto&) { all.at(3); });
  auto one = all.begin(), other = all.end();
  REQUIRE(other - one == 3 && one - other == -3 && one < other && one[2] == 4 && *(other - 1) == 4 && *(1 + one) == 3);
  one += 2, other -= 2;
  REQUIRE(*one == 4 && *other == 3 && *one-- == 4 && *--one == 0 && *other++ == 3 && *++one == 3 && other > one && one == all.begin() + 1);
}

void maps_answer_as_those_of_std(const shop& pool) {
  auto map = pool.root<in_pool<std::map<int, std::string>>>("map of answers");
  auto set = pool.root<in_pool<std::unordered_set<int>>>("set of answers");
  shop::txn([&](auto& t) {
    auto [at, is_new] = map.emplace(t, 2, "two");
    REQUIRE(is_new && at->first == 2 && at->second == "two");
    REQUIRE(!map.emplace(t, 2, "again").second && !map.try_emplace(t, 2, "again").second && map.at(2) == "two");
    REQUIRE(!map.insert_or_assign(t, 2, "now").second && map.at(2) == "now" && map.insert(t, {4, "four"}).second);
    REQUIRE(map.insert_or_assign(t, 6, "six").first->second == "six");
    REQUIRE(map.lower_bound(2)->first == 2 && map.lower_bound(3)->first == 4 && map.lower_bound(7) == map.end());
    REQUIRE(map.upper_bound(2)->first == 4 && map.upper_bound(3)->first == 4 && map.upper_bound(6) == map.end());
    auto [from, to] = map.equal_range(4);
    REQUIRE(from->first == 4 && to->first == 6 && map.equal_range(5).first == map.equal_range(5).second);
    REQUIRE((*map.rbegin()).first == 6 && (*++map.rbegin()).first == 4 && (*--map.rend()).second == "now");
    REQUIRE(map.erase(t, 5) == 0 && map.erase(t, 4) == 1 && map.count(4) == 0 && map.count(2) == 1);
    REQUIRE(map.erase(t, map.begin())->first == 6 && map.size() == 1);
    REQUIRE(set.insert(t, 1).second && !set.insert(t, 1).second && *set.emplace(t, 2).first == 2);
    auto [here, behind] = set.equal_range(1);
    REQUIRE(*here == 1 && std::distance(here, behind) == 1 && set.equal_range(3).first == set.end() && set.equal_range(3).second == set.end());
    REQUIRE(set.erase(t, 3) == 0 && set.erase(t, 1) == 1 && set.size() == 1 && *set.begin() == 2 && ++set.begin() == set.end());
  });
}

void a_root_keeps_its_container_and_its_elements(const shop& pool) {
  must_refuse(foreign, "", [&] { pool.root<in_pool<std::vector<long>>>("numbers"); });
  must_refuse(foreign, "", [&] { pool.root<in_pool<std::deque<int>>>("numbers"); });
  must_refuse(foreign, "", [&] { pool.root<in_pool<std::string>>("numbers"); });
  must_refuse(foreign, "", [&] { pool.root<in_pool<std::map<key, int>>>("map"); });
}

int main(int, char** arguments) {
  bool is_first = std::string(arguments[2]) == "first";
  shop pool(arguments[1], {.create = is_first});
  if (!is_first) a_root_keeps_its_container_and_its_elements(pool);
  auto numbers = pool.root<in_pool<std::vector<int>>>("numbers");
  auto texts = pool.root<in_pool<std::vector<std::string>>>("texts");
  auto text = pool.root<in_pool<std::string>>("text");
  auto map = pool.root<in_pool<std::map<key, std::uint32_t>>>("map");
  auto words = pool.root<in_pool<std::unordered_map<std::string, std::string>>>("words");
  if (!is_first) {
    REQUIRE(numbers.back() == 8 && text.size() == 1024 && texts[1] == "ome");
    REQUIRE(map.size() == 10 && map.begin()->first.place == 1 && words.at("here") == "it is");
    return 0;
  }
  an_absent_element_is_out_of_range(map, numbers);
  auto hashed = pool.root<in_pool<std::unordered_map<key, std::uint32_t>>>("hashed");
  an_exception_of_a_key_rolls_back(map), an_exception_of_a_key_rolls_back(hashed);
  a_key_that_changes_its_container_is_refused(map), a_key_that_changes_its_container_is_refused(hashed);
  elements_are_aligned(pool);
  an_arrow_leads_to_the_element(pool);
  a_container_takes_its_own_elements(numbers, texts, text);
  elements_keep_their_places(words);
  sequences_answer_as_those_of_std(pool);
  maps_answer_as_those_of_std(pool);
  a_walk_removes_elements(words, map);
}

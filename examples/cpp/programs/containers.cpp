// The promises of the persistent containers of std, one function for each. First run:
// `containers STORE first`; a second process finds what it left: `containers STORE second`.
#include "shop.hpp"

#include "require.hpp"

#include <everbyte/std.hpp>

#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

using stock::shop;
using enum everbyte::error_kind;
template <class Of>
using in_pool = shop::make_persistent<Of>;

bool is_angry = false;

// A key with padding, whose functions may throw.
struct key {
  std::uint8_t shelf;
  std::uint32_t place;
  bool operator<(const key& other) const { return asked(shelf != other.shelf ? shelf < other.shelf : place < other.place); }
  bool operator==(const key& other) const { return asked(shelf == other.shelf && place == other.place); }
  static bool asked(bool result) { return is_angry ? throw std::runtime_error("angry") : result; }
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
  an_exception_of_a_key_rolls_back(map);
  an_exception_of_a_key_rolls_back(pool.root<in_pool<std::unordered_map<key, std::uint32_t>>>("hashed"));
  a_container_takes_its_own_elements(numbers, texts, text);
  elements_keep_their_places(words);
  a_walk_removes_elements(words, map);
}

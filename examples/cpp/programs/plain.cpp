// A program that neither throws nor catches, for compilers' forms without exceptions and RTTI:
// containers of std, an object with a destructor, a table over classes of C++. `plain STORE first`
// makes them, `plain STORE error` fails in the midst of a transaction, `plain STORE second` finds
// all of the first, and destroys the object.
#include "shop.hpp"

#include "require.hpp"

#include <everbyte/std.hpp>

#include <map>
#include <string>
#include <vector>

using stock::shop;

int ended = 0;

struct thing {
  std::uint64_t number;
  explicit thing(std::uint64_t of) : number(of) {}
  thing(const thing&) = delete;
  thing& operator=(const thing&) = delete;
  ~thing() { ended += number == 7 ? 1 : 100; }
};
EVERBYTE_FIELDS(thing, number)

struct holder {
  everbyte::pointer_t<thing, shop> of;
};
EVERBYTE_FIELDS(holder, of)

struct spot {
  std::int32_t x, y;
  bool operator==(const spot&) const = default;
};
EVERBYTE_FIELDS(spot, x, y)

template <>
struct std::hash<spot> {
  std::size_t operator()(const spot& of) const { return static_cast<std::size_t>(of.x) * 31 + static_cast<std::size_t>(of.y); }
};

int main(int, char** words) {
  shop pool(words[1], {.create = true});
  auto numbers = pool.root<shop::make_persistent<std::vector<std::int64_t>>>("numbers");
  auto names = pool.root<shop::make_persistent<std::map<std::string, std::int64_t>>>("names");
  auto spots = pool.root<shop::kv_store<spot, std::string>>("spots");
  auto goods = pool.root<shop::inventory>("goods");
  auto held = pool.cpp_root<holder>("held");
  std::string_view run = words[2];
  if (run == "first") {
    shop::txn([&](auto& t) {
      for (std::int64_t number : {5, 6, 7}) numbers.push_back(t, number);
      names.insert_or_assign(t, "one", 1), names.insert_or_assign(t, "two", 2);
      spots.put(t, spot{1, -2}, "here"), spots.put(t, spot{-1, 2}, "there");
      held.mut(t)->of = t.make(std::in_place_type<thing>, 7u);
    });
  }
  if (run == "error") {
    shop::txn([&](auto& t) {
      numbers.clear(t), names.insert_or_assign(t, "three", 3), spots.clear(t);
      t.destroy(held->of);
      goods.take(t, "pears", 1);
    });
  }
  std::int64_t sum = 0;
  for (std::int64_t number : numbers) sum += number;
  REQUIRE(numbers.size() == 3 && sum == 18);
  REQUIRE(names.size() == 2 && names.at("two") == 2 && names.begin()->first == "one" && !names.contains("three"));
  REQUIRE(spots.size() == 2 && spots.get({1, -2}) == "here" && spots.get({-1, 2}) == "there" && !spots.get({0, 0}));
  REQUIRE(held->of->number == 7 && ended == 0);
  if (run == "second") {
    shop::txn([&](auto& t) {
      t.destroy(held->of);
      held.mut(t)->of = nullptr;
    });
    REQUIRE(ended == 1 && !held->of);
  }
}

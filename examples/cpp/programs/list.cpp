// A list whose links are Rust's and whose values are C++'s, as the root "list1"; and a number that
// threads share. First `list STORE first`, then `list STORE second`.
#include "shop.hpp"

#include "require.hpp"

#include <stdexcept>
#include <string>
#include <thread>

using stock::shop;

struct reading {
  std::int32_t place;
  double degrees;
  bool operator==(const reading&) const = default;
};
EVERBYTE_FIELDS(reading, place, degrees)

void fill(const shop::list<reading>& list) {
  REQUIRE(list.size() == 0 && !list.front());
  for (std::int32_t place = 0; place < 100; ++place) shop::txn([&](auto& t) { list.push_front(t, reading{place, place * 0.5}); });
#ifdef __cpp_exceptions
  try {
    shop::txn([&](auto& t) {
      REQUIRE(list.pop_front(t)->place == 99);
      list.push_front(t, reading{-1, 0});
      REQUIRE(list.contains({-1, 0}) && !list.contains({99, 49.5}));
      throw std::runtime_error("no");
    });
  } catch (const std::runtime_error&) {
  }
#endif
  REQUIRE(list.size() == 100 && list.front() == reading({99, 49.5}) && !list.contains({-1, 0}));
}

void empty(const shop::list<reading>& list, const shop::list<std::string>& names) {
  REQUIRE(list.contains({0, 0}) && list.contains({99, 49.5}) && !list.contains({99, 49}));
  for (std::int32_t place = 99; place >= 0; --place) {
    REQUIRE(shop::txn([&](auto& t) { return list.pop_front(t); }) == reading({place, place * 0.5}));
  }
  REQUIRE(list.size() == 0 && !list.front() && !shop::txn([&](auto& t) { return list.pop_front(t); }));
  REQUIRE(names.front() == "two" && names.contains("one") && !names.contains("three"));
}

// The lock of a method is held to the end of its transaction: no thread sees the number between
// the two changes of another. A transaction locks again what it holds.
void threads_share_a_number(const shop::tally& tally) {
  auto work = [&] {
    for (int round = 0; round < 300; ++round) {
      shop::txn([&](auto& t) {
        auto now = tally.value(t);
        REQUIRE(now % 2 == 0);
        tally.set(t, now + 1);
        std::this_thread::yield();
        tally.set(t, tally.value(t) + 1);
      });
    }
  };
  std::thread first(work), second(work);
  first.join();
  second.join();
  REQUIRE(shop::txn([&](auto& t) { return tally.step(t, true); }) == 1201);
  REQUIRE(shop::txn([&](auto& t) { return tally.step(t, false); }) == 1200);
}

int main(int, char** words) {
  shop pool(words[1], {.create = true});
  auto list = pool.root<shop::list<reading>>("list1");
  auto names = pool.root<shop::list<std::string>>("names");
  if (std::string_view(words[2]) == "second") {
    empty(list, names);
    return 0;
  }
  fill(list);
  shop::txn([&](auto& t) { names.push_front(t, "one"), names.push_front(t, "two"); });
  threads_share_a_number(pool.root<shop::tally>("shared"));
}

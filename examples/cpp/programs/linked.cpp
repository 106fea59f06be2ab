// A program that is linked with two libraries of persistent types and with libeverbyte:
// `linked STORE ROUND`. One store, which each of them opens in turn; then two stores at once. Each
// round finds what those before it have left.
#include "depot/stall.hpp"
#include "shop.hpp"

#include "require.hpp"

#include <everbyte/kv.h>

#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>

using depot::stall;
using stock::shop;
using enum everbyte::error_kind;

void by_the_first(const std::string& path, std::uint64_t round) {
  shop pool(path, {.create = true});
  auto counter = pool.root<shop::counter>("count");
  must_refuse(busy, "", [&] { stall other(path, {.create = true}); });
  shop::txn([&](auto& t) { REQUIRE(counter.add(t, 1) == static_cast<std::int64_t>(round)); });
}

void by_the_second(const std::string& path, std::uint64_t round) {
  stall pool(path, {.create = true});
  auto shelf = pool.root<stall::shelf>("shelf");
  must_refuse(busy, "", [&] { shop other(path, {.create = true}); });
  stall::txn([&](auto& t) { shelf.put(t, round); });
  REQUIRE(shelf.size() == round && shelf.at(0) == 1);
}

// Each has a store of its own, and a transaction inside of the other's; errors are its own.
void at_once(const std::string& path, std::uint64_t round) {
  std::optional<shop> first(std::in_place, path, everbyte::pool_options{.create = true});
  stall second(path + ".stall", {.create = true});
  auto counter = first->root<shop::counter>("both");
  auto shelf = second.root<stall::shelf>("both");
  shop::txn([&](auto& t) {
    stall::txn([&](auto& inner) { shelf.put(inner, round); });
    counter.add(t, 2);
  });
  must_refuse(panicked, "index out of bounds", [&] { return shelf.at(round); });
  must_refuse(panicked, "too many events", [&] { shop::txn([&](auto& t) { return counter.add(t, INT64_MAX); }); });
  REQUIRE(counter.value() == 2 * static_cast<std::int64_t>(round) && shelf.size() == round);
  first.reset();  // closed while the other library's goes on
}

// The store that both have closed, from now to the end of the process.
void by_the_c_interface(const std::string& path, std::uint64_t round) {
  setenv("EVERBYTE_STORE", path.c_str(), 1);
  eb_kv words = eb_kv_open("words", EB_KV_CREATE);
  REQUIRE(words != 0);
  std::uint64_t before = 0;
  std::size_t size = 0;
  REQUIRE(eb_kv_get(words, "round", 5, &before, sizeof before, &size) == (round > 1 ? 1 : 0) && before == round - 1);
  REQUIRE(eb_kv_put(words, "round", 5, &round, sizeof round) == 1);
  must_refuse(busy, "", [&] { shop pool(path); });
  stall second(path + ".stall");
  REQUIRE(second.root<stall::shelf>("both").size() == round);
  REQUIRE(eb_kv_close(words) == 1);
}

int main(int, char** words) {
  const std::string path = words[1];
  const std::uint64_t round = std::stoull(words[2]);
  by_the_first(path, round);
  by_the_second(path, round);
  at_once(path, round);
  by_the_c_interface(path, round);
}

// Two libraries of persistent types and libeverbyte in one process: `together STORE LIBRARY
// [EVERYTHING]`. The second library is a copy of the first, loaded by itself, with headers of
// another namespace; the third is that of C programs.
#include "archive.hpp"
#include "depot/shop.hpp"
#include "shop.hpp"

#include "require.hpp"

#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>

#include <dlfcn.h>

using stock::shop;
using second_shop = depot::shop;
using enum everbyte::error_kind;

// The symbol of the second library.
extern "C" const everbyte::bridge::entry* everbyte_bridge_depot(everbyte::bridge::raw_text expected, everbyte::bridge::raw_text* difference) {
  void* library = dlopen(std::getenv("DEPOT"), RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library != nullptr);
  auto attach = reinterpret_cast<decltype(&everbyte_bridge_stock)>(dlsym(library, "everbyte_bridge_stock"));
  REQUIRE(attach != nullptr && attach != &everbyte_bridge_stock);
  return attach(expected, difference);
}

// Each runs its transactions, inside of the other's, too; a roll-back is that of one pool.
void both_run(const shop::counter& first, const second_shop::counter& second) {
  shop::txn([&](auto& t) {
    first.add(t, 1);
    second_shop::txn([&](auto& inner) { second.add(inner, 10); });
    first.add(t, 1);
  });
  try {
    shop::txn([&](auto& t) {
      first.add(t, 100);
      second_shop::txn([&](auto& inner) { second.add(inner, 1); });
      throw std::runtime_error("no");
    });
  } catch (const std::runtime_error&) {
  }
  REQUIRE(first.value() == 2 && second.value() == 11);
}

// Panics, errors and texts are those of the library that was called.
void errors_are_its_own(const second_shop& pool, const shop::counter& first, const second_shop::counter& second) {
  must_refuse(panicked, "too many events", [&] { shop::txn([&](auto& t) { first.add(t, INT64_MAX); }); });
  must_refuse(panicked, "too many events", [&] { second_shop::txn([&](auto& t) { second.add(t, INT64_MAX); }); });
  must_refuse(busy, "root `count`", [&] { return pool.root<second_shop::counter>("count").value(); });
  auto goods = pool.root<second_shop::inventory>("goods");
  second_shop::txn([&](auto& t) { goods.put(t, "pears", 3); });
  REQUIRE(goods.first() == "pears");  // freed by its own library
}

void threads_use_both(const shop::counter& first, const second_shop::counter& second) {
  auto many = [](auto&& one) {
    for (int round = 0; round < 200; ++round) one();
  };
  std::thread one([&] { many([&] { shop::txn([&](auto& t) { first.add(t, 1); }); }); });
  std::thread other([&] { many([&] { second_shop::txn([&](auto& t) { second.add(t, 1); }); }); });
  one.join();
  other.join();
  REQUIRE(first.value() == 202 && second.value() == 211);
}

// The C interface, in a store of its own.
void the_c_interface_works(const char* library) {
  void* all = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  REQUIRE(all != nullptr);
  auto open = reinterpret_cast<std::uint64_t (*)(const char*, unsigned)>(dlsym(all, "eb_kv_open"));
  auto put = reinterpret_cast<int (*)(std::uint64_t, const void*, std::size_t, const void*, std::size_t)>(dlsym(all, "eb_kv_put"));
  auto get = reinterpret_cast<int (*)(std::uint64_t, const void*, std::size_t, void*, std::size_t, std::size_t*)>(dlsym(all, "eb_kv_get"));
  auto close = reinterpret_cast<int (*)(std::uint64_t)>(dlsym(all, "eb_kv_close"));
  REQUIRE(open != nullptr && put != nullptr && get != nullptr && close != nullptr);
  std::uint64_t kv = open("words", 1);
  REQUIRE(kv != 0);
  char value[8] = {};
  std::size_t size = 0;
  REQUIRE(put(kv, "one", 3, "1", 1) == 1 && get(kv, "one", 3, value, sizeof value, &size) == 1 && size == 1 && value[0] == '1');
  REQUIRE(close(kv) == 1);
}

int main(int, char** words) {
  std::string path = words[1];
  shop pool(path, {.create = true});
  // A store belongs to one library at a time, as to one process.
  must_refuse(busy, "", [&] { second_shop same(path); });
  second_shop other(path + ".depot", {.create = true});
  must_refuse(busy, "", [&] { stock::archive same(path + ".depot"); });
  auto first = pool.root<shop::counter>("count");
  auto second = other.root<second_shop::counter>("count");
  both_run(first, second);
  errors_are_its_own(other, first, second);
  the_c_interface_works(words[2]);
  threads_use_both(first, second);
}

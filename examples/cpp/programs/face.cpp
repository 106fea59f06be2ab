// The promises of the C++ face, one function for each. First run: `face STORE first`; a second
// process sees what the first left: `face STORE second`.
#include "archive.hpp"
#include "shop.hpp"

#include "require.hpp"

#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>

using stock::archive;
using stock::shop;
using enum everbyte::error_kind;

// Every result of a lambda comes back; nothing that ends with the transaction does (does_not.cpp).
void a_lambda_returns_a_value(const shop::counter& counter) {
  REQUIRE(shop::txn([&](auto& t) { return counter.add(t, 5); }) == 5);
  shop::txn([&](auto& t) { counter.add(t, 1); });
  REQUIRE(shop::txn([&](auto& t) { return std::to_string(counter.add(t, 1)); }) == "7");
  REQUIRE(shop::txn([&](auto&) { return std::make_unique<int>(3); }) != nullptr);
  REQUIRE(counter.value() == 7);
}

struct stop {
  std::string why;
};

void an_exception_rolls_back_and_goes_on(const shop::counter& counter) {
  bool was_caught = false;
  try {
    shop::txn([&](auto& t) {
      REQUIRE(counter.add(t, 100) == 107);
      REQUIRE(counter.value() == 107);  // a transaction reads what it has changed
      throw stop{"enough"};
    });
  } catch (const stop& caught) {
    was_caught = caught.why == "enough";
  }
  REQUIRE(was_caught);
  REQUIRE(counter.value() == 7);
}

void a_panic_is_an_exception_and_dooms_the_transaction(const shop::counter& counter) {
  must_refuse(panicked, "too many events", [&] { shop::txn([&](auto& t) { return counter.add(t, INT64_MAX); }); });
  must_refuse(invalid, "a nested transaction failed", [&] {
    shop::txn([&](auto& t) {
      counter.add(t, 1);
      try {
        counter.add(t, INT64_MAX);
      } catch (const everbyte::panic_error&) {
      }
    });
  });
  REQUIRE(counter.value() == 7);
}

void a_panic_outside_of_a_transaction_is_an_exception(const shop::prices& prices) {
  must_refuse(panicked, "index out of bounds", [&] { return prices.at(9); });
}

void nested_transactions_are_one(const shop::counter& counter) {
  shop::txn([&](auto& t) {
    counter.add(t, 1);
    shop::txn([&](auto& inner) { counter.add(inner, 1); });
    counter.add(t, 1);
  });
  REQUIRE(counter.value() == 10);
  // The exception of a part, caught, dooms the whole.
  must_refuse(invalid, "a nested transaction failed", [&] {
    shop::txn([&](auto& t) {
      counter.add(t, 1);
      try {
        shop::txn([&](auto& inner) {
          counter.add(inner, 1);
          throw stop{"inner"};
        });
      } catch (const stop&) {
      }
    });
  });
  REQUIRE(counter.value() == 10);
}

void errors_of_methods_are_exceptions(const shop::inventory& goods) {
  shop::txn([&](auto& t) { goods.put(t, "pears", 3); });
  must_refuse(refused, "only 3 are left", [&] { shop::txn([&](auto& t) { return goods.take(t, "pears", 4); }); });
  // Caught, it dooms the transaction: the method may have changed a part.
  must_refuse(invalid, "a nested transaction failed", [&] {
    shop::txn([&](auto& t) {
      goods.put(t, "pears", 1);
      must_refuse(refused, "only 4 are left", [&] { return goods.take(t, "pears", 5); });
    });
  });
  REQUIRE(goods.count("pears") == 3u);
  REQUIRE(!goods.count("plums"));
  REQUIRE(goods.first() == "pears");
  must_refuse(invalid, "no UTF-8", [&] { return goods.count("\xff"); });
}

struct point {
  std::int64_t x, y;
};
EVERBYTE_FIELDS(point, x, y)

// A transaction that another thread uses, outside of one of its own and inside.
void a_transaction_belongs_to_its_thread_and_lambda(const shop& pool, const shop::counter& counter) {
  auto root = pool.cpp_root<point>("point of a thread");
  everbyte::pointer_t<point, shop> made;
  // everbyte: allow(kept) committed before it is used
  shop::txn([&](auto& t) { made = t.make(point{1, 2}); });
  shop::txn([&](auto& t) {
    auto refused = [](auto&& body) { must_refuse(invalid, "belongs to another thread", body); };
    std::thread([&] {
      refused([&] { counter.add(t, 1); });
      refused([&] { t.make(point{3, 4}); });
      refused([&] { t.destroy(made); });
      refused([&] { root.mut(t)->x = 1; });
      must_refuse(invalid, "belongs to another thread", [&] { shop::txn([&](auto&) { counter.add(t, 1); }); });
    }).join();
    t.destroy(made);
  });
  REQUIRE(counter.value() == 10 && root->x == 0);
}

void roots_have_names_and_types(const shop& pool) {
  auto visits = pool.root<shop::visits>("visits");
  shop::txn([&](auto& t) { visits.push(t, 4u); });
  must_refuse(busy, "root `visits`", [&] { return pool.root<shop::visits>("visits"); });
  { auto closed = pool.root<shop::prices>("closed"); }
  must_refuse(foreign, "root `closed` is no", [&] { return pool.root<shop::counter>("closed"); });
  must_refuse(invalid, "inside of a transaction", [&] {
    shop::txn([&](auto&) { return pool.root<shop::counter>("late").value(); });
  });
  { auto again = visits; }  // a copy is the same root
  REQUIRE(visits.size() == 1 && visits.at(0) == 4u);
}

// A struct that both languages declare crosses as it is, and may be a field of a class of C++.
struct shelf {
  stock::place at;
  std::int32_t number;
};
EVERBYTE_FIELDS(shelf, at, number)

void structs_of_both_languages_cross(const shop& pool) {
  auto places = pool.root<shop::places>("places");
  REQUIRE(!places.last());
  shop::txn([&](auto& t) {
    places.push(t, {1.5, 65535, -2.5f});
    places.push(t, stock::place{.east = -0.25, .shelf = 7, .north = 8});
  });
  auto first = places.at(0), last = places.last().value();
  REQUIRE(first.east == 1.5 && first.shelf == 65535 && first.north == -2.5f && places.size() == 2);
  REQUIRE(last.east == -0.25 && last.shelf == 7 && last.north == 8);
  auto kept = pool.cpp_root<shelf>("shelf", {first, 3});
  REQUIRE(kept->at.north == -2.5f && kept->number == 3);
}

// A `float` is none of the other numbers.
void floats_cross(const shop& pool) {
  auto weights = pool.root<shop::weights>("weights");
  REQUIRE(!weights.last());
  shop::txn([&](auto& t) { weights.push(t, 0.5f); });
  static_assert(std::is_same_v<decltype(weights.at(0)), float>);
  REQUIRE(weights.at(0) == 0.5f && weights.last() == 0.5f);
}

// One template serves both pools, and each call goes to its own.
template <class Pool>
std::int64_t add_two(const stock::counter<Pool>& counter) {
  return Pool::txn([&](auto& t) { return counter.add(t, 2); });
}

// A pool's class is all that a template over pools needs: the names of its types, its pointers, and
// the transactions, whose type names the pool.
template <class Pool, class Brand>
void push_twice(everbyte::transaction<Pool, Brand>& t, const typename Pool::prices& prices, double price) {
  prices.push(t, price), prices.push(t, price);
}
template <class Pool>
void a_pool_is_its_own_traits(const Pool& pool) {
  auto prices = pool.template root<typename Pool::prices>(std::string("prices of ") + Pool::type_name);
  auto kept = pool.template cpp_root<point>("point of a template");
  everbyte::pointer_t<point, Pool> made;
  // everbyte: allow(kept) committed before it is used
  Pool::txn([&](auto& t) {
    push_twice(t, prices, 1.5);
    made = t.make(point{1, 2});
    *kept.mut(t, &point::x) += made->x;
    t.destroy(made);
  });
  REQUIRE(prices.size() > 0 && prices.size() == 2 * static_cast<std::size_t>(kept->x));
  // No vessel lies in a pool, so none has to ask in which one it does.
  static_assert(!everbyte::psafe<typename Pool::prices, Pool>);
  static_assert(everbyte::psafe<decltype(made), Pool>);
}

void two_pools_are_independent(const std::string& path, const shop::counter& counter) {
  archive other(path + ".archive", {.create = true});
  auto old = other.root<archive::counter>("count");
  std::int64_t before = old.value();
  REQUIRE(add_two(old) == before + 2);
  REQUIRE(add_two(counter) == 12);
  static_assert(!std::is_same_v<archive::prices, shop::prices>);
  a_pool_is_its_own_traits(other);
}

void a_pool_stays_open_for_its_roots(const std::string& path) {
  auto old = [&] {
    archive pool(path + ".archive");
    must_refuse(busy, "", [&] { archive second(path + ".archive"); });
    return pool.root<archive::counter>("count");
  }();
  REQUIRE(old.value() > 0);
}

// A view that was moved is still one; a pool object that was moved says so.
void moved_objects_are_defined(const std::string& path) {
  archive pool(path + ".archive");
  archive now(std::move(pool));
  must_refuse(invalid, "pool type `archive`: this pool object was moved from", [&] { return pool.root<archive::counter>("count"); });
  must_refuse(invalid, "this pool object was moved from", [&] { pool.sync(); });
  auto old = now.root<archive::counter>("count");
  auto moved = std::move(old);
  REQUIRE(old.value() == moved.value());
  archive::txn([&](auto& t) { old.add(t, 1); });
  now.sync();
}

void a_pool_closed_in_its_own_lambda_refuses(const std::string& path) {
  std::optional<archive> pool(std::in_place, path + ".archive");
  everbyte::pointer_t<point, archive> kept;
  // everbyte: allow(kept) it is used after its pool was closed, to be refused
  archive::txn([&](auto& t) { kept = t.make(point{1, 2}); });
  archive::txn([&](auto& t) {
    kept.mut(t)->x = 7;
    pool.reset();  // everbyte: allow(volatile) a pool that is closed too early
    must_refuse(invalid, "the pool was closed", [&] { t.make(point{3, 4}); });
    must_refuse(invalid, "the pool was closed", [&] { t.destroy(kept); });
    must_refuse(invalid, "its pool is closed", [&] { return kept->x; });
    must_refuse(busy, "", [&] { archive second(path + ".archive"); });
  });
  must_refuse(invalid, "no pool is open", [] { archive::txn([](auto&) {}); });
  must_refuse(invalid, "its pool is closed", [&] { return kept->x; });
  pool.emplace(path + ".archive");
  REQUIRE(kept->x == 7);
  archive::txn([&](auto& t) { t.destroy(kept); });
}

// Threads change one pool at once, each its own objects.
void threads_make_and_destroy_objects(const std::string& path) {
  archive pool(path + ".archive");
  auto work = [&](const char* name) {
    auto root = pool.cpp_root<point>(name);
    for (int round = 0; round < 200; ++round) {
      archive::txn([&](auto& t) {
        auto made = t.make(point{round, 0});
        root.mut(t)->x += made->x;
        if (round % 2 == 0) t.destroy(made);
      });
    }
    REQUIRE(root->x == 199 * 200 / 2);
  };
  std::thread first(work, "first"), second(work, "second");
  first.join();
  second.join();
}

// Bytes that commits have only written to the log reach their place in the file.
void sync_reaches_the_library(const std::string& path) {
  auto bytes = [&] {
    std::ifstream file(path + ".synced", std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  archive pool(path + ".synced", {.create = true, .backend = "file", .durability = "process", .size_max = 64u << 20});
  auto counter = pool.root<archive::counter>("count");
  pool.sync();
  archive::txn([&](auto& t) { counter.add(t, 1); });
  auto before = bytes();
  pool.sync();
  REQUIRE(bytes() != before);
}

void errors_of_opening_are_exceptions(const std::string& path) {
  must_refuse(io, "absent", [&] { archive pool(path + ".absent"); });
  must_refuse(invalid, "is none of auto", [&] { archive pool(path + ".archive", {.backend = "tape"}); });
  must_refuse(invalid, "`soon` is none of always", [&] { archive pool(path + ".archive", {.durability = "soon"}); });
  must_refuse(invalid, "too small", [&] { archive pool(path + ".small", {.create = true, .size_max = 4096}); });
  must_refuse(not_found, "nothing", [&] { archive pool(path + ".archive", {.name = "nothing"}); });
}

// A pool of one type is none of another, also where one that is absent would be made.
void a_pool_keeps_its_type(const std::string& path) {
  { archive made(path, {.create = true}); }
  for (bool create : {false, true}) {
    must_refuse(foreign, "", [&] { shop pool(path, {.create = create, .name = "archive"}); });
  }
  REQUIRE(archive(path).root<archive::counter>("count").value() == 0);
  must_refuse(not_found, "nothing", [&] { archive pool(path, {.name = "nothing"}); });
}

int main(int, char** words) {
  std::string path = words[1], run = words[2];
  if (run == "closed") {
    must_refuse(invalid, "no pool is open", [] { shop::txn([](auto&) {}); });
    a_pool_keeps_its_type(path + ".typed");
    return 0;
  }
  shop pool(path, {.create = run == "first"});
  auto counter = pool.root<shop::counter>("count");
  auto goods = pool.root<shop::inventory>("goods");
  if (run == "second") {
    REQUIRE(counter.value() == 12);
    REQUIRE(goods.count("pears") == 3u);
    auto visits = pool.root<shop::visits>("visits");
    REQUIRE(visits.size() == 1 && visits.at(0) == 4u && visits.last() == 4u);
    REQUIRE(pool.root<shop::places>("places").at(0).east == 1.5 && pool.cpp_root<shelf>("shelf")->at.shelf == 65535);
    return 0;
  }
  auto prices = pool.root<shop::prices>("prices");
  a_lambda_returns_a_value(counter);
  an_exception_rolls_back_and_goes_on(counter);
  a_panic_is_an_exception_and_dooms_the_transaction(counter);
  a_panic_outside_of_a_transaction_is_an_exception(prices);
  nested_transactions_are_one(counter);
  errors_of_methods_are_exceptions(goods);
  a_transaction_belongs_to_its_thread_and_lambda(pool, counter);
  roots_have_names_and_types(pool);
  structs_of_both_languages_cross(pool);
  floats_cross(pool);
  two_pools_are_independent(path, counter);
  a_pool_is_its_own_traits(pool);
  a_pool_stays_open_for_its_roots(path);
  moved_objects_are_defined(path);
  a_pool_closed_in_its_own_lambda_refuses(path);
  threads_make_and_destroy_objects(path);
  sync_reaches_the_library(path);
  errors_of_opening_are_exceptions(path);
}

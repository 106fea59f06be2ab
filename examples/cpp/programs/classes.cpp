// A list whose structs are all declared in C++. `classes STORE first`, then `classes STORE second`;
// `classes STORE changed` is a program whose class has changed.
#include "archive.hpp"
#include "shop.hpp"

#include "require.hpp"

#include <stdexcept>

using stock::shop;
using enum everbyte::error_kind;

enum class color : std::uint8_t { red, green };

struct node {
#ifdef CHANGED
  std::int32_t value;
#else
  std::int64_t value;
#endif
  color shade;
  everbyte::pointer_t<node, shop> next;
};
EVERBYTE_FIELDS(node, value, shade, next)

struct list {
  std::uint64_t size;
  everbyte::pointer_t<node, shop> head;
};
EVERBYTE_FIELDS(list, size, head)

static_assert(sizeof(everbyte::pointer_t<node, shop>) == 8);
static_assert(everbyte::psafe<list, shop> && !everbyte::psafe<list, stock::archive>);

void push(const everbyte::object<list, shop>& all, decltype(node::value) value) {
  shop::txn([&](auto& t) {
    auto added = t.make(node{value, color::green, all->head});
    auto changed = all.mut(t);
    changed->head = added;
    changed->size += 1;
  });
}

std::int64_t sum(const everbyte::object<list, shop>& all) {
  std::int64_t sum = 0;
  for (auto one = all->head; one; one = one->next) sum += one->value;
  return sum;
}

void a_roll_back_restores_every_byte(const everbyte::object<list, shop>& all) {
  try {
    shop::txn([&](auto& t) {
      all->head.mut(t)->value = 100;
      *all.mut(t, &list::size) = 9;
      auto second = all->head->next;
      all.mut(t)->head = second;
      t.destroy(t.make(node{1, color::red, nullptr}));
      REQUIRE(all->size == 9 && sum(all) == 3);
      throw std::runtime_error("no");
    });
  } catch (const std::runtime_error&) {
  }
  REQUIRE(all->size == 3 && sum(all) == 6);
}

void an_object_is_destroyed_once(const everbyte::object<list, shop>& all) {
  shop::txn([&](auto& t) {
    auto gone = all->head;
    auto changed = all.mut(t);
    changed->head = gone->next;
    changed->size -= 1;
    t.destroy(gone);
  });
  must_refuse(invalid, "destroyed before", [&] { shop::txn([&](auto& t) { t.destroy(everbyte::pointer_t<node, shop>{}); }); });
  must_refuse(invalid, "or is a root", [&] { shop::txn([&](auto& t) { t.destroy(all.pointer()); }); });
  REQUIRE(all->size == 2 && sum(all) == 3);
}

int main(int, char** words) {
  std::string_view run = words[2];
  shop pool(words[1], {.create = run == "first"});
  if (run == "changed") {
    must_refuse(foreign, "field `value` of `node` is `i64 @0` in the pool and `i32 @0` in the program",
            [&] { pool.cpp_root<node>("first node"); });
    return 0;
  }
  auto all = pool.cpp_root<list>("list1");
  if (run == "first") {
    for (int value : {1, 2, 3}) push(all, value);
    REQUIRE(all->size == 3 && all->head->shade == color::green);
    a_roll_back_restores_every_byte(all);
    an_object_is_destroyed_once(all);
    must_refuse(busy, "root `list1`", [&] { pool.cpp_root<list>("list1"); });
    auto first = pool.cpp_root<node>("first node", {7, color::red, nullptr});
    REQUIRE(first->value == 7);
  } else {
    must_refuse(foreign, "root `first node` is no", [&] { pool.root<shop::counter>("first node"); });
    must_refuse(foreign, "root `first node` is no", [&] { pool.cpp_root<list>("first node"); });
  }
  REQUIRE(all->size == 2 && sum(all) == 3);
}

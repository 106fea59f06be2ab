// Programs that must not compile, by one compilation for all of them: a line `//@ TEXT` begins one,
// and says what the compiler has to say of it; `|` stands between the words of compilers. Without
// WRONG the file compiles.
#include "archive.hpp"
#include "shop.hpp"

#include <functional>
#include <utility>

using stock::archive;
using stock::shop;

struct listed {
  std::int64_t value;
  everbyte::pointer_t<listed, shop> next;
};
EVERBYTE_FIELDS(listed, value, next)

std::int64_t right(const shop& pool, const shop::counter& counter) {
  auto object = pool.cpp_root<listed>("object");
  return shop::txn([&](auto& t) {
    auto made = t.make(listed{1, nullptr});
    object.mut(t)->next = made;
    return counter.add(t, object->next->value);
  });
}

#ifdef WRONG

struct unlisted { std::int64_t value; };
struct plain_pointer { std::int64_t value; listed* next; };
EVERBYTE_FIELDS(plain_pointer, value, next)
struct hidden_pointer { std::int64_t value; void* hidden; std::int64_t last; };
EVERBYTE_FIELDS(hidden_pointer, value, last)
struct function_pointer { void (*call)(); };
EVERBYTE_FIELDS(function_pointer, call)
struct holds_a_reference { const int& of; };
struct holds_text { std::string text; };
EVERBYTE_FIELDS(holds_text, text)
struct with_a_table { virtual void call(); std::int64_t value; };
struct of_two_pools {
  everbyte::pointer_t<listed, shop> first;
  everbyte::pointer_t<listed, archive> second;
};
EVERBYTE_FIELDS(of_two_pools, first, second)

//@ no matching function|no matching member function
void a_change_without_a_transaction(const shop::counter& counter) {
  counter.add(1);
}
//@ no matching function|no matching member function
void a_transaction_of_another_pool(const shop::counter& counter) {
  archive::txn([&](auto& t) { return counter.add(t, 1); });
}
//@ conversion
void a_root_of_another_pool(const archive::counter& other) {
  shop::counter mixed = other;
}
//@ does not leave the lambda
void a_transaction_returned() {
  shop::txn([&](auto& t) -> auto& { return t; });
}
//@ does not leave the lambda
void a_plain_pointer_returned() {
  shop::txn([&](auto& t) { return &t; });
}
//@ does not leave the lambda
void a_plain_pointer_in_a_pair_returned() {
  shop::txn([&](auto& t) { return std::pair(1, &t); });
}
//@ does not leave the lambda
void a_reference_to_an_object_returned(const everbyte::object<listed, shop>& object) {
  shop::txn([&](auto&) -> const listed& { return *object; });
}
//@ does not leave the lambda
void a_pointer_of_the_pool_returned() {
  shop::txn([&](auto& t) { return t.make(listed{1, nullptr}); });
}
//@ does not leave the lambda
void the_right_to_change_returned(const everbyte::object<listed, shop>& object) {
  shop::txn([&](auto& t) { return std::optional(object.mut(t)); });
}
//@ deleted
void a_transaction_copied() {
  shop::txn([&](auto& t) { auto copy = t; });
}
//@ deleted
void a_root_on_the_heap(const shop::counter& counter) {
  new shop::counter(counter);
}
//@ deleted
void a_root_by_default() {
  shop::counter none;
}
//@ deleted
void a_root_assigned(shop::counter& to, const shop::counter& counter) {
  to = counter;
}
//@ deleted
void a_root_move_assigned(shop::counter& to, shop::counter& counter) {
  to = std::move(counter);
}
//@ deleted
void a_root_destroyed_by_delete(shop::counter* counter) {
  delete counter;
}
//@ read-only|returns a const value
void an_object_changed_without_a_transaction(const everbyte::object<listed, shop>& object) {
  object->value = 1;
}
//@ read-only|returns a const value
void an_object_changed_through_a_pointer(everbyte::pointer_t<listed, shop> pointer) {
  pointer->value = 1;
}
//@ no match|no viable
void a_pointer_of_another_pool(const everbyte::object<listed, shop>& object, everbyte::pointer_t<listed, archive> other) {
  shop::txn([&](auto& t) { object.mut(t)->next = other; });
}
//@ invalid conversion|no matching conversion|no viable|conversion from
void a_plain_pointer_made_persistent(listed* plain) {
  everbyte::pointer_t<listed, shop> pointer = plain;
}
//@ this class cannot live in the pool
void a_class_that_lists_no_fields(const shop& pool) {
  pool.cpp_root<unlisted>("x", {1});
}
//@ this class cannot live in the pool
void a_field_that_is_a_plain_pointer(const shop& pool) {
  pool.cpp_root<plain_pointer>("x", {1, nullptr});
}
//@ this class cannot live in the pool
void a_field_that_is_not_listed(const shop& pool) {
  pool.cpp_root<hidden_pointer>("x", {1, nullptr, 2});
}
//@ this class cannot live in the pool
void a_field_that_is_a_function_pointer(const shop& pool) {
  pool.cpp_root<function_pointer>("x", {nullptr});
}
//@ this class cannot live in the pool
void a_field_that_is_text_of_the_heap(const shop& pool) {
  pool.cpp_root<holds_text>("x", {"text"});
}
//@ this class cannot live in the pool
void a_reference(const shop& pool, const int& of) {
  pool.cpp_root<holds_a_reference>("x", {of});
}
//@ this class cannot live in the pool
void a_table_of_virtual_functions(const shop& pool, const with_a_table& value) {
  pool.cpp_root<with_a_table>("x", value);
}
//@ this class cannot live in the pool
void pointers_of_two_pools(const shop& pool) {
  pool.cpp_root<of_two_pools>("x", {nullptr, nullptr});
}
//@ this class cannot live in the pool
void an_object_of_the_other_pool_made() {
  archive::txn([](auto& t) { t.make(listed{1, nullptr}); });
}
//@ this class cannot live in the pool
void a_plain_pointer_made_an_object(int* plain) {
  shop::txn([&](auto& t) { t.make(plain); });
}

#endif

// Programs that must not compile, by one compilation for all of them: a line `//@ TEXT` begins one,
// and says what the compiler has to say of it first; ` | ` stands between the words of compilers,
// and ` & ` between parts. Without WRONG the file compiles.
#include "archive.hpp"
#include "shop.hpp"

#include <everbyte/std.hpp>

#include <array>
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

//@ no matching function & add | no matching member function & add
void a_change_without_a_transaction(const shop::counter& counter) {
  counter.add(1);
}
//@ no matching function & add | no matching member function & add
void a_transaction_of_another_pool(const shop::counter& counter) {
  archive::txn([&](auto& t) { return counter.add(t, 1); });
}
//@ conversion from & archive
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
void pointers_of_the_pool_in_an_array_returned() {
  shop::txn([&](auto& t) { return std::array{t.make(listed{1, nullptr})}; });
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
//@ is no coroutine
struct task { struct promise_type {}; };
void a_coroutine() {
  shop::txn([&](auto&) { return task{}; });
}
//@ deleted & transaction
void a_transaction_copied() {
  shop::txn([&](auto& t) { auto copy = t; });
}
//@ is private | private constructor
void the_right_to_change_made_of_nothing(listed& plain) {
  shop::txn([&]<class Brand>(everbyte::transaction<shop, Brand>& t) { everbyte::changing<listed, shop, Brand> made(t, plain); });
}
//@ deleted & operator new | deleted & 'new'
void a_root_on_the_heap(const shop::counter& counter) {
  new shop::counter(counter);
}
//@ deleted function & counter() | deleted default constructor
void a_root_by_default() {
  shop::counter none;
}
//@ deleted function & operator= | assignment operator is implicitly deleted
void a_root_assigned(shop::counter& to, const shop::counter& counter) {
  to = counter;
}
//@ deleted function & operator= | assignment operator is implicitly deleted
void a_root_move_assigned(shop::counter& to, shop::counter& counter) {
  to = std::move(counter);
}
//@ deleted function & operator delete | attempt to use a deleted function
void a_root_destroyed_by_delete(shop::counter* counter) {
  delete counter;
}
//@ deleted & operator new | deleted & 'new'
void a_container_on_the_heap(const shop::make_persistent<std::vector<int>>& numbers) {
  new shop::make_persistent<std::vector<int>>(numbers);
}
//@ deleted function & map() | deleted default constructor
void a_container_by_default() {
  shop::make_persistent<std::map<int, int>> none;
}
//@ deleted & operator new | deleted & 'new'
void a_root_of_cpp_on_the_heap(const everbyte::object<listed, shop>& object) {
  new everbyte::object<listed, shop>(object);
}
//@ deleted function & operator delete | attempt to use a deleted function
void a_root_of_cpp_destroyed_by_delete(everbyte::object<listed, shop>* object) {
  delete object;
}
//@ deleted function & object() | deleted constructor
void a_root_of_cpp_by_default() {
  everbyte::object<listed, shop> none;
}
//@ deleted function & operator= | deleted operator
void a_root_of_cpp_assigned(everbyte::object<listed, shop>& to, const everbyte::object<listed, shop>& object) {
  to = object;
}
//@ deleted & operator new | deleted & 'new'
void the_right_to_change_on_the_heap(const everbyte::object<listed, shop>& object) {
  shop::txn([&](auto& t) { new auto(object.mut(t)); });
}
//@ deleted & shop
void a_pool_copied(const shop& pool) {
  shop copy = pool;
}
//@ read-only | returns a const value
void an_object_changed_without_a_transaction(const everbyte::object<listed, shop>& object) {
  object->value = 1;
}
//@ read-only | returns a const value
void an_object_changed_through_a_pointer(everbyte::pointer_t<listed, shop> pointer) {
  pointer->value = 1;
}
//@ no match for 'operator=' | no viable overloaded '='
void a_pointer_of_another_pool(const everbyte::object<listed, shop>& object, everbyte::pointer_t<listed, archive> other) {
  shop::txn([&](auto& t) { object.mut(t)->next = other; });
}
//@ conversion from 'listed*' | no viable conversion from 'listed *'
void a_plain_pointer_made_persistent(listed* plain) {
  everbyte::pointer_t<listed, shop> pointer = plain;
}
//@ is private | private constructor
void a_plain_pointer_made_persistent_by_a_constructor(listed* plain) {
  everbyte::pointer_t<listed, shop> pointer(plain);
}
//@ list its fields with EVERBYTE_FIELDS
struct unlisted { std::int64_t value; };
void a_class_that_lists_no_fields(const shop& pool) {
  pool.cpp_root<unlisted>("x", {1});
}
//@ lists no fields | list its fields
struct unlisted_behind { std::int64_t value; };
struct leads_to_it { everbyte::pointer_t<unlisted_behind, shop> to; };
EVERBYTE_FIELDS(leads_to_it, to)
void a_pointer_to_a_class_that_lists_no_fields(const shop& pool) {
  pool.cpp_root<leads_to_it>("x");
}
//@ a field of this class cannot live in the pool
struct plain_pointer { std::int64_t value; listed* next; };
EVERBYTE_FIELDS(plain_pointer, value, next)
void a_field_that_is_a_plain_pointer(const shop& pool) {
  pool.cpp_root<plain_pointer>("x", {1, nullptr});
}
//@ only 2 names
struct hidden_pointer { std::int64_t value; void* hidden; std::int64_t last; };
EVERBYTE_FIELDS(hidden_pointer, value, last)
//@ only 2 names
struct hidden_in_padding { std::uint8_t value; std::uint8_t hidden; std::int64_t last; };
EVERBYTE_FIELDS(hidden_in_padding, value, last)
//@ anonymous union
struct hidden_in_a_union { std::int64_t value; union { std::int64_t number; void* hidden; }; };
EVERBYTE_FIELDS(hidden_in_a_union, value, number)
//@ are not listed in their order
struct turned { std::int32_t first; std::int64_t second; };
EVERBYTE_FIELDS(turned, second, first)
void fields_in_another_order(const shop& pool) {
  pool.cpp_root<turned>("x", {1, 2});
}
//@ are not listed in their order
struct with_unnamed_bits { std::int32_t first; std::int32_t : 32; };
EVERBYTE_FIELDS(with_unnamed_bits, first)
void bytes_that_no_field_has(const shop& pool) {
  pool.cpp_root<with_unnamed_bits>("x", {1});
}
//@ an alignment of over 16
struct alignas(32) far_apart { std::int64_t of[4]; };
EVERBYTE_FIELDS(far_apart, of)
void an_alignment_that_the_heap_does_not_have(const shop& pool) {
  pool.cpp_root<far_apart>("x");
}
//@ a field of this class cannot live in the pool
struct plain_pointers { std::int64_t count; listed* of[2]; };
EVERBYTE_FIELDS(plain_pointers, count, of)
void an_array_of_plain_pointers(const shop& pool) {
  pool.cpp_root<plain_pointers>("x");
}
//@ a field of this class cannot live in the pool
struct array_of_pointers { std::array<listed*, 2> of; };
EVERBYTE_FIELDS(array_of_pointers, of)
void an_array_of_std_of_plain_pointers(const shop& pool) {
  pool.cpp_root<array_of_pointers>("x");
}
//@ a field of this class cannot live in the pool
struct array_of_nothing { std::int64_t count; std::array<std::int64_t, 0> of; };
EVERBYTE_FIELDS(array_of_nothing, count, of)
void an_array_of_nothing(const shop& pool) {
  pool.cpp_root<array_of_nothing>("x");
}
//@ a field of this class cannot live in the pool
struct long_number { long double value; };
EVERBYTE_FIELDS(long_number, value)
void a_number_that_compilers_pad(const shop& pool) {
  pool.cpp_root<long_number>("x");
}
//@ non-static data members | have non-static data
struct with_a_base : listed { std::int64_t own; };
EVERBYTE_FIELDS(with_a_base, value, next, own)
//@ a field of this class cannot live in the pool
struct function_pointer { void (*call)(); };
EVERBYTE_FIELDS(function_pointer, call)
void a_field_that_is_a_function_pointer(const shop& pool) {
  pool.cpp_root<function_pointer>("x", {nullptr});
}
//@ use POOL::make_persistent
struct holds_text { std::string text; };
EVERBYTE_FIELDS(holds_text, text)
void a_field_that_is_text_of_the_heap(const shop& pool) {
  pool.cpp_root<holds_text>("x", {"text"});
}
//@ use POOL::make_persistent
void a_map_of_std_as_a_root(const shop& pool) {
  pool.cpp_root<std::map<int, int>>("x");
}
//@ use POOL::make_persistent
void a_vector_of_std_made_in_the_pool(const std::vector<long>& numbers) {
  shop::txn([&](auto& t) { t.make(numbers); });
}
//@ use POOL::make_persistent
void a_hash_table_of_std_in_a_hash_table(const shop& pool) {
  pool.root<shop::kv_store<int, std::unordered_map<int, int>>>("x");
}
//@ use POOL::make_persistent
void a_vector_in_a_persistent_vector(const shop& pool) {
  pool.root<shop::make_persistent<std::vector<std::vector<int>>>>("x");
}
//@ whatever allocator it has
void a_vector_of_std_over_the_allocator_of_a_pool() {
  std::vector<int, everbyte::allocator<int, shop>> numbers;
}
//@ whatever allocator it has
void a_list_of_std_over_the_allocator_of_a_pool() {
  std::list<int, everbyte::allocator<int, shop>> numbers;
}
//@ whatever allocator it has
void a_hash_table_of_std_over_the_allocator_of_a_pool() {
  std::unordered_set<int, std::hash<int>, std::equal_to<int>, everbyte::allocator<int, shop>> numbers;
}
//@ with the order, hash and allocator that std gives them
void a_map_of_another_order(const shop& pool) {
  pool.root<shop::make_persistent<std::map<int, int, std::greater<int>>>>("x");
}
//@ add `std` to its list
void a_pool_without_containers(const archive& pool) {
  pool.root<archive::make_persistent<std::vector<int>>>("x");
}
//@ no matching function & push_back | no matching member function & push_back
void an_element_added_without_a_transaction(const shop::make_persistent<std::vector<int>>& numbers) {
  numbers.push_back(1);
}
//@ read-only | cannot assign
void an_element_changed_without_a_transaction(const shop::make_persistent<std::vector<int>>& numbers) {
  numbers[0] = 1;
}
//@ a field of this class cannot live in the pool
struct holds_a_reference { const int& of; };
EVERBYTE_FIELDS(holds_a_reference, of)
void a_reference(const shop& pool, const int& of) {
  pool.cpp_root<holds_a_reference>("x", {of});
}
//@ a mutable field cannot live in the pool
struct with_a_mutable_field { std::int64_t value; mutable std::int64_t cached; };
EVERBYTE_FIELDS(with_a_mutable_field, value, cached)
void a_mutable_field(const shop& pool) {
  pool.cpp_root<with_a_mutable_field>("x", {1, 2});
}
//@ a union cannot live in the pool
union either { std::int64_t number; void* pointer; };
template <> struct everbyte::fields<either> {
  static constexpr std::string_view everbyte_name = "either";
  using everbyte_list = everbyte::bridge::field_list<everbyte::bridge::field<std::int64_t, 0, false>>;
};
void a_union(const shop& pool, const either& value) {
  pool.cpp_root<either>("x", value);
}
//@ a class with virtual functions cannot live in the pool
struct with_a_table { virtual void call(); std::int64_t value; };
EVERBYTE_FIELDS(with_a_table, value)
void a_table_of_virtual_functions(const shop& pool, const with_a_table& value) {
  pool.cpp_root<with_a_table>("x", value);
}
//@ would run for each copy
struct with_a_destructor { std::int64_t value; ~with_a_destructor(); };
EVERBYTE_FIELDS(with_a_destructor, value)
void a_destructor(const shop& pool, const with_a_destructor& value) {
  pool.cpp_root<with_a_destructor>("x", value);
}
//@ would run for each copy
struct moved_with_a_destructor {
  std::int64_t value;
  moved_with_a_destructor() = default;
  moved_with_a_destructor(moved_with_a_destructor&&) noexcept;
  moved_with_a_destructor& operator=(const moved_with_a_destructor&) = delete;
  ~moved_with_a_destructor();
};
EVERBYTE_FIELDS(moved_with_a_destructor, value)
void a_destructor_of_a_class_that_moves() {
  shop::txn([&](auto& t) { t.make(std::in_place_type<moved_with_a_destructor>); });
}
//@ would run for each copy
struct assigned_with_a_destructor {
  std::int64_t value;
  assigned_with_a_destructor() = default;
  assigned_with_a_destructor(const assigned_with_a_destructor&) = delete;
  assigned_with_a_destructor& operator=(const assigned_with_a_destructor&);
  ~assigned_with_a_destructor();
};
EVERBYTE_FIELDS(assigned_with_a_destructor, value)
void a_destructor_of_a_class_that_is_assigned() {
  shop::txn([&](auto& t) { t.make(std::in_place_type<assigned_with_a_destructor>); });
}
//@ it is copied as bytes
struct copied_by_code {
  std::int64_t value;
  copied_by_code() = default;
  copied_by_code(const copied_by_code& other) : value(other.value + 1) {}
};
EVERBYTE_FIELDS(copied_by_code, value)
void a_copy_constructor(const shop& pool) {
  pool.cpp_root<copied_by_code>("x");
}
//@ it is copied as bytes
struct assigned_by_code {
  std::int64_t value;
  assigned_by_code& operator=(const assigned_by_code&);
};
EVERBYTE_FIELDS(assigned_by_code, value)
void an_assignment(const shop& pool) {
  pool.cpp_root<assigned_by_code>("x");
}
struct ending {
  std::int64_t value;
  ending() = default;
  ending(const ending&) = delete;
  ending& operator=(const ending&) = delete;
  ~ending();
};
EVERBYTE_FIELDS(ending, value)
//@ a root is never destroyed
void a_root_with_a_destructor(const shop& pool) {
  pool.cpp_root<ending>("x");
}
//@ built in the pool
void a_copy_of_an_object_with_a_destructor(const ending& value) {
  shop::txn([&](auto& t) { t.make(value); });
}
//@ no part of a template
void a_template_over_a_class_with_a_destructor(const shop& pool) {
  pool.root<shop::kv_store<int, ending>>("x");
}
//@ a field of this class cannot live in the pool
struct of_two_pools {
  everbyte::pointer_t<listed, shop> first;
  everbyte::pointer_t<listed, archive> second;
};
EVERBYTE_FIELDS(of_two_pools, first, second)
void pointers_of_two_pools(const shop& pool) {
  pool.cpp_root<of_two_pools>("x", {nullptr, nullptr});
}
//@ a field of this class cannot live in the pool
struct of_the_shop { everbyte::pointer_t<listed, shop> to; };
EVERBYTE_FIELDS(of_the_shop, to)
void an_object_of_the_other_pool_made() {
  archive::txn([](auto& t) { t.make(of_the_shop{nullptr}); });
}
//@ a field of this class cannot live in the pool
struct holds_a_root { shop::counter of; };
EVERBYTE_FIELDS(holds_a_root, of)
void a_type_of_rust_in_a_class_of_cpp(const shop& pool, const holds_a_root& value) {
  pool.cpp_root<holds_a_root>("x", value);
}
//@ no part of a template
void a_type_of_rust_in_a_template(const shop& pool) {
  pool.root<shop::kv_store<int, shop::counter>>("x");
}
//@ this class cannot live in the pool
void a_plain_pointer_made_an_object(int* plain) {
  shop::txn([&](auto& t) { t.make(plain); });
}

#endif

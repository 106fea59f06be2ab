// The functions of the library, called without their headers' checks: pointers that are null, not
// aligned, or of nothing that they may lead to. Each call is refused with `invalid`, and the pool
// stays as it is. `raw STORE`. A pointer to an object that is none, aligned and in the pool, is not
// found.
#include "shop.hpp"

#include "require.hpp"

#include <array>
#include <memory>
#include <string>

// The sentence about a wrong header is never freed.
extern "C" const char* __asan_default_options() { return "detect_leaks=0"; }

using namespace everbyte::bridge;
using library = stock::everbyte_detail;

template <class Function>
Function* at(std::size_t index) {
  return table<library>::at<Function>(index);
}

std::size_t refusals = 0;

// A call that must fail as `invalid`.
void invalid(status of, std::string_view part) {
  raw_fault fault{0, "", 0};
  at<void(raw_fault*)>(0)(&fault);
  std::string said(fault.bytes, fault.size);
  if (of != failed || static_cast<everbyte::error_kind>(fault.kind) != everbyte::error_kind::invalid || said.find(part) == said.npos) {
    std::fprintf(stderr, "status %u, kind %u, not `%.*s`: %s\n", of, fault.kind, static_cast<int>(part.size()), part.data(), said.c_str());
    std::exit(1);
  }
  ++refusals;
}

// Addresses at which no `T` lies.
template <class T>
std::array<T*, 2> wrong() {
  static char bytes[64];
  auto odd = (reinterpret_cast<std::uintptr_t>(bytes) + 15) / 16 * 16 + 1;
  return {nullptr, reinterpret_cast<T*>(odd)};
}

constexpr std::size_t pool_first = 3;  // behind the three functions of every library
constexpr std::size_t pool_span = 4 << 20;

using open_function = status(const raw_options*, const void**, const char**);
using handle_function = status(const void*);
using root_function = status(const void*, raw_text, const raw_object*, std::size_t, const void**);
using cpp_root_function = status(const void*, raw_text, const raw_object*, const void**);
using txn_function = status(void*, status (*)(void*, std::uint64_t) noexcept);
using make_function = status(const void*, std::uint64_t, const raw_object*, const void**);
using destroy_function = status(const void*, std::uint64_t, std::uint64_t);
using change_function = status(std::uint64_t, const void*, std::size_t);
using value_function = status(const void*, std::int64_t*);
using add_function = status(const void*, std::uint64_t, std::int64_t, std::int64_t*);

struct all {
  const void* handle = nullptr;
  const char* base = nullptr;
  const void* counter = nullptr;
  std::size_t type = 0;
  std::uint64_t ended = 0;
};

// Addresses that are aligned, of memory that is no pool's, and of the pool where it has no objects.
void no_objects(const all& of, auto&& call) {
  static std::int64_t global[8] = {};
  std::int64_t local[8] = {};
  auto heap = std::make_unique<std::int64_t[]>(8);
  for (auto self : wrong<const void>()) call(self);
  for (const void* self : {static_cast<const void*>(global), static_cast<const void*>(local), static_cast<const void*>(heap.get())}) call(self);
  for (const void* self : {of.handle, static_cast<const void*>(of.base), static_cast<const void*>(of.base + 4088)}) call(self);
  call(of.base + pool_span);
}

const char node[] = "root node\nnode 8 8 { value: u64 @0 }\n";

status inside(void* context, std::uint64_t number) noexcept {
  const all& of = *static_cast<all*>(context);
  static const std::uint64_t value = 7;
  raw_object object{raw("node"), raw(node), &value, 8, 0};
  const void* made = nullptr;
  auto make = at<make_function>(pool_first + 5);
  for (auto place : wrong<const raw_object>()) invalid(make(of.handle, number, place, &made), "a value");
  for (auto place : wrong<const void*>()) invalid(make(of.handle, number, &object, place), "a result");
  invalid(make(nullptr, number, &object, &made), "the pool was closed");
  for (const void* handle : {static_cast<const void*>(&of), static_cast<const void*>("x"), of.counter}) {
    invalid(make(handle, number, &object, &made), "no open pool");
    invalid(at<destroy_function>(pool_first + 6)(handle, number, 4096), "no open pool");
  }
  object.bytes = nullptr;
  invalid(make(of.handle, number, &object, &made), "a value");
  object = {raw_text{nullptr, 3}, raw(node), &value, 8, 0};
  invalid(make(of.handle, number, &object, &made), "a null pointer with a length");
  for (std::uint64_t offset : {0u, 1u, 4096u, 4097u}) invalid(at<destroy_function>(pool_first + 6)(of.handle, number, offset), "no object");
  auto change = at<change_function>(pool_first + 7);
  for (const void* place : {static_cast<const void*>(nullptr), static_cast<const void*>(&of), of.handle}) {
    invalid(change(number, place, 8), "no object lies there");
  }
  invalid(change(number, of.counter, std::size_t(1) << 60), "no object lies there");
  invalid(change(number + 1, of.counter, 8), "the transaction has ended");
  auto add = at<add_function>(of.type + 2);
  std::int64_t out = 0;
  no_objects(of, [&](const void* self) { invalid(add(self, number, 1, &out), "an object"); });
  no_objects(of, [&](const void* self) { invalid(at<value_function>(of.type + 1)(self, &out), "an object"); });
  for (auto place : wrong<std::int64_t>()) invalid(add(of.counter, number, 1, place), "a result");
  return done;
}

status ends(void* context, std::uint64_t number) noexcept {
  static_cast<all*>(context)->ended = number;
  return done;
}

// A transaction that has ended, used where none runs, and in a later one.
void by_an_ended_one(const all& of) {
  static const std::uint64_t value = 7;
  raw_object object{raw("node"), raw(node), &value, 8, 0};
  const void* made = nullptr;
  std::int64_t out = 0;
  for (std::uint64_t wrong : {of.ended, std::uint64_t(0)}) {
    invalid(at<make_function>(pool_first + 5)(of.handle, wrong, &object, &made), "the transaction has ended");
    invalid(at<destroy_function>(pool_first + 6)(of.handle, wrong, 4096), "the transaction has ended");
    invalid(at<change_function>(pool_first + 7)(wrong, of.counter, 8), "the transaction has ended");
    invalid(at<add_function>(of.type + 2)(of.counter, wrong, 1, &out), "the transaction has ended");
  }
}

status later(void* context, std::uint64_t number) noexcept {
  const all& of = *static_cast<all*>(context);
  REQUIRE(number != of.ended);
  by_an_ended_one(of);
  return done;
}

int main(int, char** words) {
  std::string path = words[1];
  raw_options options{raw(path), raw("shop"), raw(""), raw(""), 0, pool_span, 1, 0};
  all of;
  auto open = at<open_function>(pool_first);
  for (auto place : wrong<const raw_options>()) invalid(open(place, &of.handle, &of.base), "options");
  for (auto place : wrong<const void*>()) invalid(open(&options, place, &of.base), "a handle");
  for (auto place : wrong<const char*>()) invalid(open(&options, &of.handle, place), "a base");
  REQUIRE(open(&options, &of.handle, &of.base) == done);

  of.type = stock::shop::counter::everbyte_root_index;
  auto root = at<root_function>(of.type);
  for (auto place : wrong<const void*>()) invalid(root(of.handle, raw("count"), nullptr, 0, place), "a root");
  invalid(root(of.handle, raw_text{nullptr, 5}, nullptr, 0, &of.counter), "a null pointer with a length");
  for (const void* handle : {static_cast<const void*>(nullptr), static_cast<const void*>("x"), static_cast<const void*>(&of)}) {
    auto part = handle == nullptr ? "the handle is null" : "no open pool";
    invalid(root(handle, raw("count"), nullptr, 0, &of.counter), part);
    invalid(at<handle_function>(pool_first + 8)(handle), part);
    invalid(at<handle_function>(pool_first + 1)(handle), part);
    invalid(at<status(const void*, const void*)>(pool_first + 2)(handle, nullptr), part);
  }
  REQUIRE(root(of.handle, raw("count"), nullptr, 0, &of.counter) == done);
  for (auto place : wrong<const raw_object>()) {
    const void* out = nullptr;
    auto list = at<root_function>(stock::shop::kv_store<int, int>::everbyte_root_index);
    invalid(list(of.handle, raw("list"), place, 2, &out), "a list of classes");
    invalid(at<cpp_root_function>(pool_first + 4)(of.handle, raw("node"), place, &out), "a value");
  }
  auto value = at<value_function>(of.type + 1);
  std::int64_t out = 0;
  no_objects(of, [&](const void* self) {
    std::size_t size = 0;
    using size_function = status(const void*, std::size_t*);
    invalid(value(self, &out), "an object");
    invalid(at<size_function>(stock::shop::kv_store<int, int>::everbyte_root_index + 1)(self, &size), "an object");
  });
  for (auto place : wrong<std::int64_t>()) invalid(value(of.counter, place), "a result");

  invalid(at<txn_function>(pool_first + 3)(&of, nullptr), "a transaction has a body");
  // A refusal inside of a transaction dooms it.
  invalid(at<txn_function>(pool_first + 3)(&of, &inside), "");
  auto txn = at<txn_function>(pool_first + 3);
  REQUIRE(txn(&of, &ends) == done && of.ended != 0);
  by_an_ended_one(of);
  REQUIRE(txn(&of, &later) == done);
  using register_function = status(raw_text, raw_text, status (*)(void*) noexcept, std::uint32_t);
  invalid(at<register_function>(2)(raw("node"), raw(node), nullptr, 1), "a destructor is a function");
  at<void(raw_fault*)>(0)(nullptr);
  at<void(raw_string)>(1)({nullptr, 0, 0});
  REQUIRE(everbyte_bridge_stock(raw("another"), nullptr) == nullptr);

  REQUIRE(value(of.counter, &out) == done && out == 0);
  const void* counter = of.counter;
  REQUIRE(at<status(const void*, const void*)>(pool_first + 2)(of.handle, of.counter) == done);
  REQUIRE(at<handle_function>(pool_first + 1)(of.handle) == done);
  invalid(at<handle_function>(pool_first + 1)(of.handle), "no open pool");
  invalid(value(counter, &out), "an object");  // its pool is closed
  REQUIRE(refusals > 90);
}

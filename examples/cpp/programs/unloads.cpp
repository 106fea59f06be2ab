// A destructor that has left the process with its shared object: `unloads STORE PLUGIN`. The object
// stays, and its drop is refused.
#include "shop.hpp"

#include "require.hpp"

#include <string>

#include <dlfcn.h>

using namespace everbyte::bridge;
using library = stock::everbyte_detail;
using everbyte::error_kind;

struct drop {
  const void* opened = nullptr;
  std::uint64_t offset = 0;
  everbyte::error_kind kind{};
  std::string message{};
};

// Destroys the object by its offset: this program does not know its class.
status destroy(void* of, std::uint64_t number) noexcept {
  drop& my = *static_cast<drop*>(of);
  status ended = table<library>::at<status(const void*, std::uint64_t, std::uint64_t)>(3 + 6)(my.opened, number, my.offset);
  raw_fault fault{0, "", 0};
  if (ended == failed) table<library>::at<void(raw_fault*)>(0)(&fault);
  my.kind = static_cast<everbyte::error_kind>(fault.kind);
  my.message.assign(fault.bytes, fault.size);
  return done;
}

int main(int, char** words) {
  std::string path = words[1];
  void* plugin = dlopen(words[2], RTLD_NOW | RTLD_LOCAL);
  REQUIRE(plugin != nullptr);
  auto make = reinterpret_cast<std::uint64_t (*)(const char*)>(dlsym(plugin, "everbyte_make_one"));
  REQUIRE(make != nullptr);
  drop of;
  of.offset = make(path.c_str());
  REQUIRE(of.offset != 0);
  REQUIRE(dlclose(plugin) == 0);
  REQUIRE(dlopen(words[2], RTLD_NOW | RTLD_NOLOAD) == nullptr);  // it has left the process

  const char* base = nullptr;
  raw_options options{raw(path), raw("shop"), raw(""), raw(""), 0, 0, 0, 0};
  REQUIRE(table<library>::at<status(const raw_options*, const void**, const char**)>(3)(&options, &of.opened, &base) == done);
  auto txn = table<library>::at<status(void*, status (*)(void*, std::uint64_t) noexcept)>(3 + 3);
  REQUIRE(txn(&of, &destroy) == failed);
  REQUIRE(of.kind == error_kind::foreign && of.message.find("class `visit`: its objects have a destructor, which this program does not") == 0);
  REQUIRE(table<library>::at<status(const void*)>(3 + 1)(of.opened) == done);
}

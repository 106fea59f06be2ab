// A class whose destructor throws, in a program and in a shared object that hides its symbols:
// `hidden STORE PLUGIN`. The library calls the destructor of the one that came last. The program
// gets its exception where the linker has made their variables one, else an error. The pool is open
// to the program alone.
#include "shop.hpp"

#include "require.hpp"

#include <stdexcept>
#include <string>

#include <dlfcn.h>

using stock::shop;

struct angry {
  std::uint64_t number;
  explicit angry(std::uint64_t of) : number(of) {}
  angry(const angry&) = delete;
  angry& operator=(const angry&) = delete;
  ~angry() noexcept(false) { throw std::runtime_error(IS_PLUGIN ? "the plugin's" : "the program's"); }
};
EVERBYTE_FIELDS(angry, number)

// The exception of the destruction of an object.
std::string destroy_one() {
  try {
    shop::txn([](auto& t) { t.destroy(t.make(std::in_place_type<angry>, 1u)); });
  } catch (const everbyte::error& error) {
    return error.kind() == everbyte::error_kind::unsupported ? "unsupported" : error.what();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "nothing";
}

#if IS_PLUGIN
extern "C" [[gnu::visibility("default")]] bool everbyte_is_refused() {
  return destroy_one().starts_with("pool type `Shop`: the pool was closed");
}
#else
int main(int, char** words) {
  shop pool(words[1], {.create = true});
  REQUIRE(destroy_one() == "the program's");
  void* plugin = dlopen(words[2], RTLD_NOW | RTLD_LOCAL);
  REQUIRE(plugin != nullptr);
  auto is_refused = reinterpret_cast<bool (*)()>(dlsym(plugin, "everbyte_is_refused"));
  REQUIRE(is_refused != nullptr && is_refused());
  std::string thrown = destroy_one();
  std::printf("%s\n", thrown.c_str());
  REQUIRE(dlclose(plugin) == 0);
}
#endif

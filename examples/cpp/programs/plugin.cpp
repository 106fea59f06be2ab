// A shared object whose class has a destructor: makes one of its objects in the pool of the store
// at a path, and answers its offset. `unloads.cpp` loads it.
#include "shop.hpp"

using stock::shop;

namespace {
int destroyed = 0;
}

struct visit {
  std::uint64_t number;
  explicit visit(std::uint64_t of) : number(of) {}
  visit(const visit&) = delete;
  visit& operator=(const visit&) = delete;
  ~visit() { ++destroyed; }
};
EVERBYTE_FIELDS(visit, number)

// Destroys the second of two objects itself; answers the offset of the first, or 0.
extern "C" std::uint64_t everbyte_make_one(const char* path) {
  shop pool(path, {.create = true});
  std::uint64_t left = shop::txn([](auto& t) {
    auto first = t.make(std::in_place_type<visit>, 1u);
    t.destroy(t.make(std::in_place_type<visit>, 2u));
    return first.offset();
  });
  return destroyed == 1 ? left : 0;
}

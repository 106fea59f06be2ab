// An object with a destructor, made by one program and destroyed by another, which only finds it:
// `later STORE` is compiled twice, with MAKES and without. The second one makes no such object.
#include "shop.hpp"

#include "require.hpp"

using stock::shop;

int ended = 0;

struct thing {
  std::uint64_t number;
  explicit thing(std::uint64_t of) : number(of) {}
  thing(const thing&) = delete;
  thing& operator=(const thing&) = delete;
  ~thing() { ended += number == 7 ? 1 : 100; }
};
EVERBYTE_FIELDS(thing, number)

struct holder {
  everbyte::pointer_t<thing, shop> of;
};
EVERBYTE_FIELDS(holder, of)

int main(int, char** words) {
  shop pool(words[1], {.create = true});
  auto held = pool.cpp_root<holder>("held");
  shop::txn([&](auto& t) {
#ifdef MAKES
    held.mut(t)->of = t.make(std::in_place_type<thing>, 7u);
#else
    t.destroy(held->of);
    held.mut(t)->of = nullptr;
#endif
  });
#ifdef MAKES
  REQUIRE(ended == 0 && held->of->number == 7);
#else
  REQUIRE(ended == 1 && !held->of);
#endif
}

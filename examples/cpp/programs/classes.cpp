// A list whose structs are all declared in C++. `classes STORE first`, then `classes STORE second`;
// `classes STORE changed` is a program whose class has changed, and that lacks a destructor.
#include "archive.hpp"
#include "shop.hpp"

#include "require.hpp"

#include <array>
#include <cstring>
#include <new>
#include <stdexcept>
#include <utility>

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

// A field of one byte is logged by itself.
void a_roll_back_restores_a_small_field(const everbyte::object<list, shop>& all) {
  try {
    shop::txn([&](auto& t) {
      *all->head.mut(t, &node::shade) = color::red;
      throw std::runtime_error("no");
    });
  } catch (const std::runtime_error&) {
  }
  REQUIRE(all->head->shade == color::green);
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

void a_null_pointer_reads_and_changes_nothing() {
  everbyte::pointer_t<node, shop> none;
  must_refuse(invalid, "a pointer_t is null", [&] { return none->value; });
  must_refuse(invalid, "a pointer_t is null", [&] { shop::txn([&](auto& t) { none.mut(t)->value = 1; }); });
  must_refuse(invalid, "a pointer_t is null", [&] { shop::txn([&](auto& t) { *none.mut(t, &node::value) = 1; }); });
}

// The bytes between the fields of an object are zero in the pool, whatever they were.
void padding_is_zero() {
  alignas(node) unsigned char bytes[sizeof(node)];
  std::memset(bytes, 0xab, sizeof bytes);
  node* filled = new (bytes) node;
  filled->value = 5;
  filled->shade = color::green;
  shop::txn([&](auto& t) {
    auto made = t.make(*filled);
    unsigned char kept[sizeof(node)];
    std::memcpy(kept, &*made, sizeof kept);
    for (std::size_t at = sizeof(node::value) + 1; at < sizeof(node) - 8; ++at) REQUIRE(kept[at] == 0);
    REQUIRE(made->value == 5 && made->shade == color::green && !made->next);
    t.destroy(made);
  });
}

// Every byte of an object is kept, the last one too.
struct filled {
  std::int16_t first;
  std::int16_t last;
};
EVERBYTE_FIELDS(filled, first, last)

// With padding, so that its fields are copied one by one.
struct row {
  std::uint8_t mark;
  std::int32_t plain[2];
  std::array<std::int16_t, 3> other;
};
EVERBYTE_FIELDS(row, mark, plain, other)

void the_last_byte_is_kept() {
  shop::txn([&](auto& t) {
    auto made = t.make(filled{1, -1});
    REQUIRE(made->first == 1 && made->last == -1);
    t.destroy(made);
    auto copied = t.make(row{1, {2, 3}, {4, 5, 6}});
    REQUIRE(copied->mark == 1 && copied->plain[0] == 2 && copied->plain[1] == 3);
    REQUIRE(copied->other == (std::array<std::int16_t, 3>{4, 5, 6}));
    t.destroy(copied);
  });
}

// Classes that lead to each other, and fields that are const.
struct tree;
struct branch {
  const std::uint32_t depth;
  everbyte::pointer_t<tree, shop> of;
};
struct tree {
  std::array<branch, 2> branches;
  std::int16_t marks[2][3];
  everbyte::pointer_t<const branch, shop> first;
};
EVERBYTE_FIELDS(branch, depth, of)
EVERBYTE_FIELDS(tree, branches, marks, first)

// Each kind of number, in as many fields as a list may have.
enum class wide_color : std::int32_t { blue = -1 };
struct kinds {
  bool flag;
  char letter;
  signed char small;
  std::uint8_t byte;
  std::int16_t i16;
  std::uint16_t u16;
  std::int32_t i32;
  std::uint32_t u32;
  std::int64_t i64;
  std::uint64_t u64;
  float single;
  double twice;
  color shade;
  wide_color wide;
  std::array<bool, 2> flags;
  everbyte::pointer_t<kinds, shop> next;
};
EVERBYTE_FIELDS(kinds, flag, letter, small, byte, i16, u16, i32, u32, i64, u64, single, twice, shade, wide, flags, next)

// Each length of a list compiles, and names its fields in their order.
template <int>
struct of_length;
#define OF_LENGTH(number, ...)                          \
  template <>                                           \
  struct of_length<number> { std::int8_t __VA_ARGS__; }; \
  EVERBYTE_FIELDS(of_length<number>, __VA_ARGS__)
OF_LENGTH(1, a)
OF_LENGTH(2, a, b)
OF_LENGTH(3, a, b, c)
OF_LENGTH(4, a, b, c, d)
OF_LENGTH(5, a, b, c, d, e)
OF_LENGTH(6, a, b, c, d, e, f)
OF_LENGTH(7, a, b, c, d, e, f, g)
OF_LENGTH(8, a, b, c, d, e, f, g, h)
OF_LENGTH(9, a, b, c, d, e, f, g, h, i)
OF_LENGTH(10, a, b, c, d, e, f, g, h, i, j)
OF_LENGTH(11, a, b, c, d, e, f, g, h, i, j, k)
OF_LENGTH(12, a, b, c, d, e, f, g, h, i, j, k, l)
OF_LENGTH(13, a, b, c, d, e, f, g, h, i, j, k, l, m)
OF_LENGTH(14, a, b, c, d, e, f, g, h, i, j, k, l, m, n)
OF_LENGTH(15, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o)
OF_LENGTH(16, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)

template <int... Numbers>
constexpr bool may_live(std::integer_sequence<int, Numbers...>) {
  return (everbyte::psafe<of_length<Numbers + 1>, shop> && ...);
}
static_assert(may_live(std::make_integer_sequence<int, 16>{}));

void a_description_names_each_kind_of_number() {
  REQUIRE(everbyte::bridge::description_of<kinds>() ==
          "root kinds\nkinds 72 8 { flag: bool @0; letter: i8 @1; small: i8 @2; byte: u8 @3; i16: i16 @4; u16: u16 @6; "
          "i32: i32 @8; u32: u32 @12; i64: i64 @16; u64: u64 @24; single: f32 @32; twice: f64 @40; shade: u8 @48; wide: i32 @52; "
          "flags: [bool; 2] @56; next: pointer_t<kinds> @64 }\n");
}

// An object is built where its class may lie, and lies so in the pool.
struct alignas(16) wide {
  std::uint64_t first, second;
  bool was_aligned;
  wide() : first(1), second(2), was_aligned(is_aligned(this)) {}
  // everbyte: allow(cast) to a number, which is compared alone
  static bool is_aligned(const wide* at) { return reinterpret_cast<std::uintptr_t>(at) % alignof(wide) == 0; }
};
EVERBYTE_FIELDS(wide, first, second, was_aligned)

void objects_are_aligned(const shop& pool) {
  auto root = pool.cpp_root<wide>("wide");
  REQUIRE(root->was_aligned && wide::is_aligned(&*root));
  shop::txn([&](auto& t) {
    for (int round = 0; round < 8; ++round) {
      auto made = t.make(std::in_place_type<wide>);
      REQUIRE(made->was_aligned && wide::is_aligned(&*made));
      auto between = t.make(filled{1, 2});
      t.destroy(made), t.destroy(between);
    }
  });
}

void a_description_has_the_classes_that_pointers_lead_to() {
  REQUIRE(everbyte::bridge::description_of<branch>() ==
          "root branch\nbranch 16 8 { depth: u32 @0; of: pointer_t<tree> @8 }\n"
          "tree 56 8 { branches: [branch; 2] @0; marks: [[i16; 3]; 2] @32; first: pointer_t<branch> @48 }\n");
}

// A class with a destructor, which counts in the pool and outside of it. The changed program has
// the class without it.
struct counts {
  std::uint64_t ended;
};
EVERBYTE_FIELDS(counts, ended)

struct session {
  std::uint64_t number;
  everbyte::pointer_t<counts, shop> to;
  everbyte::pointer_t<session, shop> child;
#ifndef CHANGED
  session(std::uint64_t of, everbyte::pointer_t<counts, shop> counted, everbyte::pointer_t<session, shop> below)
      : number(of), to(counted), child(below) {}
  session(const session&) = delete;
  session& operator=(const session&) = delete;
  ~session() noexcept(false);
#endif
};
EVERBYTE_FIELDS(session, number, to, child)

struct sessions {
  everbyte::pointer_t<counts, shop> to;
  everbyte::pointer_t<session, shop> second, last;
};
EVERBYTE_FIELDS(sessions, to, second, last)
using all_sessions = everbyte::object<sessions, shop>;

int destructors_run = 0;

#ifndef CHANGED
session::~session() noexcept(false) {
  ++destructors_run;
  if (number == 13) throw std::runtime_error("not now");
  shop::txn([&](auto& t) {
    to.mut(t)->ended += number;
    if (child) t.destroy(child);
  });
  number = 0;
}

void destructors_run_once_for_each_committed_drop(const all_sessions& all) {
  auto destroy = [&](everbyte::pointer_t<session, shop> gone, bool is_kept) {
    shop::txn([&](auto& t) {
      t.destroy(gone);
      REQUIRE(destructors_run == 0 && gone->number == 1);
      if (!is_kept) throw std::runtime_error("no");
    });
  };
  shop::txn([&](auto& t) { all.mut(t)->to = t.make(counts{0}); });
  everbyte::pointer_t<session, shop> first;
  shop::txn([&](auto& t) {
    auto child = t.make(std::in_place_type<session>, 2u, all->to, nullptr);
    // everbyte: allow(kept) committed before it is used
    first = t.make(std::in_place_type<session>, 1u, all->to, child);
    all.mut(t)->second = t.make(std::in_place_type<session>, 5u, all->to, nullptr);
    all.mut(t)->last = t.make(std::in_place_type<session>, 13u, all->to, nullptr);
  });
  try {
    destroy(first, false);
    REQUIRE(false);
  } catch (const std::runtime_error&) {
  }
  REQUIRE(destructors_run == 0 && first->child->number == 2);
  destroy(first, true);
  REQUIRE(destructors_run == 2 && all->to->ended == 3);
  must_refuse(invalid, "destroyed before", [&] { shop::txn([&](auto& t) { t.destroy(first); }); });
  must_refuse(invalid, "destroyed before", [&] {
    shop::txn([&](auto& t) {
      t.destroy(all->second);
      t.destroy(all->second);
    });
  });
  REQUIRE(destructors_run == 2);
}

// An exception of a destructor takes the drop back.
void a_destructor_may_throw(const all_sessions& all) {
  auto before = all->to->ended;
  try {
    shop::txn([&](auto& t) {
      t.destroy(all->second);
      t.destroy(all->last);
    });
    REQUIRE(false);
  } catch (const std::runtime_error& error) {
    REQUIRE(std::string_view(error.what()) == "not now");
  }
  REQUIRE(all->second->number == 5 && all->last->number == 13 && all->to->ended == before);
}

// Each destructor of a chain destroys the next object: one after another, not inside of each other.
void a_long_chain_needs_no_deep_stack() {
  constexpr int count = 20000;
  int before = destructors_run;
  everbyte::pointer_t<counts, shop> counted;
  everbyte::pointer_t<session, shop> first;
  shop::txn([&](auto& t) {
    counted = t.make(counts{0});  // everbyte: allow(kept) committed before it is used
    // everbyte: allow(kept) committed before it is used
    for (int number = 0; number < count; ++number) first = t.make(std::in_place_type<session>, 1u, counted, first);
  });
  shop::txn([&](auto& t) { t.destroy(first); });
  REQUIRE(counted->ended == count && destructors_run == before + count);
  shop::txn([&](auto& t) { t.destroy(counted); });
}
#endif

// One process has made the object, another one destroys it.
void a_later_process_runs_the_destructor(const all_sessions& all) {
  destructors_run = 0;
  shop::txn([&](auto& t) {
    t.destroy(all->second);
    all.mut(t)->second = nullptr;
  });
  REQUIRE(destructors_run == 1 && all->to->ended == 8);
}

void a_program_without_the_destructor_reads_and_is_refused_the_drop(const all_sessions& all) {
  REQUIRE(all->last->number == 13);
  must_refuse(foreign, "class `session`: its objects have a destructor, which this program does not", [&] {
    shop::txn([&](auto& t) {
      all.mut(t)->to = nullptr;
      t.destroy(all->last);
    });
  });
  REQUIRE(all->to->ended == 8 && all->last->number == 13);
}

int main(int, char** words) {
  std::string_view run = words[2];
  shop pool(words[1], {.create = run == "first"});
  if (run == "changed") {
    must_refuse(foreign, "field `value` of `node` is `i64 @0` in the pool and `i32 @0` in the program",
            [&] { pool.cpp_root<node>("first node"); });
    // Behind a pointer, too.
    must_refuse(foreign, "class `list`: field `value` of `node` is `i64 @0` in the pool and `i32 @0` in the program",
            [&] { pool.cpp_root<list>("list1"); });
    a_program_without_the_destructor_reads_and_is_refused_the_drop(pool.cpp_root<sessions>("sessions"));
    return 0;
  }
  auto all = pool.cpp_root<list>("list1");
  auto kept = pool.cpp_root<sessions>("sessions");
  if (run == "first") {
    for (int value : {1, 2, 3}) push(all, value);
    REQUIRE(all->size == 3 && all->head->shade == color::green);
    REQUIRE(all->head == all->head && all->head != all->head->next && all->head->next->next->next == nullptr);
    a_roll_back_restores_every_byte(all);
    a_roll_back_restores_a_small_field(all);
    an_object_is_destroyed_once(all);
    must_refuse(busy, "root `list1`", [&] { pool.cpp_root<list>("list1"); });
    auto first = pool.cpp_root<node>("first node", {7, color::red, nullptr});
    REQUIRE(first->value == 7);
    for (int round = 0; round < 2; ++round) REQUIRE(pool.cpp_root<node>("ended")->value == 0);  // a root that has ended
    a_null_pointer_reads_and_changes_nothing();
    padding_is_zero();
    the_last_byte_is_kept();
#ifndef CHANGED
    destructors_run_once_for_each_committed_drop(kept);
    a_destructor_may_throw(kept);
    a_long_chain_needs_no_deep_stack();
#endif
    a_description_has_the_classes_that_pointers_lead_to();
    a_description_names_each_kind_of_number();
    objects_are_aligned(pool);
  } else {
    a_later_process_runs_the_destructor(kept);
    must_refuse(foreign, "root `first node` is no", [&] { pool.root<shop::counter>("first node"); });
    must_refuse(foreign, "root `first node` is no", [&] { pool.cpp_root<list>("first node"); });
    // One of the same size.
    must_refuse(foreign, "root `first node` is no", [&] { pool.cpp_root<sessions>("first node"); });
  }
  REQUIRE(all->size == 2 && sum(all) == 3);
}

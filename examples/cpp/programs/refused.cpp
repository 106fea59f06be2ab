// Programs that compile, and that `everbyte bridge check` refuses: a line that ends with `//@ RULE`
// is refused by that rule, and no other line is. The program is not run.
#include "archive.hpp"
#include "shop.hpp"

#include <everbyte/std.hpp>

#include <any>
#include <atomic>
#include <coroutine>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

using stock::shop;

struct thing {
  std::int64_t value;
  everbyte::pointer_t<thing, shop> next;
};
EVERBYTE_FIELDS(thing, value, next)
using things = everbyte::object<thing, shop>;
using numbers = shop::make_persistent<std::vector<std::int64_t>>;

// Casts of what lies in a pool.
void changes_behind_the_log(const things& root, const numbers& all) {
  const_cast<thing&>(*root).value = 1;                              //@ cast
  const_cast<std::int64_t&>(root->value) = 1;                       //@ cast
  const_cast<std::int64_t&>(root->next->value) = 1;                 //@ cast
  *const_cast<std::int64_t*>(&root->value) = 1;                     //@ cast
  ((thing*)&*root)->value = 1;                                      //@ cast
  (std::int64_t&)root->value = 1;                                   //@ cast
  *reinterpret_cast<std::int32_t*>(reinterpret_cast<std::uintptr_t>(&root->value)) = 1;  //@ cast
  const_cast<std::int64_t&>(all[0]) = 1;                            //@ cast
  const_cast<std::int64_t&>(*all.begin()) = 1;                      //@ cast
  const auto& kept = root->value;
  const_cast<std::int64_t&>(kept) = 1;                              //@ cast
  const std::int64_t* at = &root->value;
  *const_cast<std::int64_t*>(at) = 1;                               //@ cast
  for (const auto& one : all) const_cast<std::int64_t&>(one) = 1;   //@ cast
  const auto& [value, next] = *root;
  const_cast<std::int64_t&>(value) = 1;                             //@ cast
  [[maybe_unused]] const auto& unused = root->value;
  const_cast<std::int64_t&>(unused) = 1;                            //@ cast
  std::int64_t own = 0;
  const_cast<std::int64_t&>(at ? own : root->value) = 1;            //@ cast
  shop::txn([&](auto& t) {
    auto made = t.make(thing{1, nullptr});
    const_cast<thing&>(*made).value = 2;                            //@ cast
  });
}
void changes_what_it_is_given(const std::int64_t& of) {
  const_cast<std::int64_t&>(of) = 1;                                //@ cast
}
thing* makes_an_object_of_bytes(unsigned char* bytes) {
  return reinterpret_cast<thing*>(bytes);                           //@ cast
}
std::uint64_t reads_a_pointer_as_a_number(const things& root) {
  return reinterpret_cast<const std::uint64_t&>(root->next);        //@ cast
}

// Variables outside of a transaction, changed in it.
std::int64_t counted = 0;
std::vector<int> seen;
std::atomic<int> ready{0};
struct holder {
  int number = 0;
  void set(int to) { number = to; }
  void change(const shop::counter& counter) {
    shop::txn([&](auto& t) {
      counter.add(t, 1);
      number = 2;                                                   //@ volatile
      set(3);                                                       //@ volatile
    });
  }
};
void changes_variables(const shop::counter& counter, int* given) {
  int number = 0;
  auto& same = number;
  holder one;
  std::pair<int, int> pair;
  std::map<int, int> table;
  shop::txn([&](auto& t) {
    number = 1;                                                     //@ volatile
    ++number;                                                       //@ volatile
    number += 2;                                                    //@ volatile
    same = 1;                                                       //@ volatile
    pair.first = 1;                                                 //@ volatile
    table[1] = 2;                                                   //@ volatile
    *given = 1;                                                     //@ volatile
    one.number = 1;                                                 //@ volatile
    one.set(2);                                                     //@ volatile
    counted += counter.add(t, 1);                                   //@ volatile
    seen.push_back(1);                                              //@ volatile
    ready.store(1);                                                 //@ volatile
    ready = 1;                                                      //@ volatile
    std::swap(number, pair.second);                                 //@ volatile
    auto inner = [&] { number = 4; };                               //@ volatile
    inner();
    static int calls = 0;
    ++calls;                                                        //@ volatile
    int* to = &number;
    *to = 5;                                                        //@ volatile
    (to ? number : pair.second) = 6;                                //@ volatile
  });
  shop::txn([&]<class Brand>(everbyte::transaction<shop, Brand>& t) {
    number = static_cast<int>(counter.add(t, 1));                   //@ volatile
  });
}
template <class T>
void a_part_of_a_transaction(T& t, const shop::counter& counter) {
  counted = counter.add(t, 1);                                      //@ volatile
}
using everbyte::transaction;
template <class Brand>
void another_part(transaction<shop, Brand>& t, const shop::counter& counter) {
  counted = counter.add(t, 1);                                      //@ volatile
}
void calls_it(const shop::counter& counter) {
  shop::txn([&](auto& t) { a_part_of_a_transaction(t, counter), another_part(t, counter); });
}

// Kept past the lambda.
struct steps {
  struct promise_type {
    steps get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() {}
  };
  std::coroutine_handle<promise_type> of;
};
template <class Transaction>
steps in_two_steps(Transaction& t) {
  co_await std::suspend_always{};
  t.make(thing{1, nullptr});
}
std::any anything;
std::optional<steps> frame;
std::optional<std::any> by_reference;
std::function<void()> later;
void keeps(const things& root) {
  thing* plain = nullptr;
  const std::int64_t* reads = nullptr;
  everbyte::pointer_t<thing, shop> pointer;
  void* transaction = nullptr;
  std::vector<std::int64_t*> many;
  shop::txn([&](auto& t) {
    auto changed = root.mut(t);
    plain = &*root.mut(t);                                          //@ kept
    plain = &*changed;                                              //@ kept
    reads = &root->value;                                           //@ kept
    pointer = t.make(thing{1, nullptr});                            //@ kept
    transaction = &t;                                               //@ kept
    anything = root.mut(t);                                         //@ kept
    many.push_back(&changed->value);                                //@ kept
    later = [changed] { changed->value = 1; };                      //@ kept
    frame = in_two_steps(t);                                        //@ volatile
    by_reference.emplace(std::ref(t));                              //@ kept
    static auto* first = &root.mut(t)->value;                       //@ kept
    *first = 1;
  });
}

void returns_a_lambda(const things& root, const shop::counter& counter) {
  auto adds = shop::txn([&](auto& t) {
    return [&t, &counter] { counter.add(t, 1); };                   //@ kept
  });
  auto changes = shop::txn([&](auto& t) {
    auto changed = root.mut(t);
    auto sets = [changed] { changed->value = 1; };
    return std::function<void()>(sets);                             //@ kept
  });
  adds(), changes();
}

// Functions of the library without their headers.
extern "C" void* dlsym(void*, const char*);
void calls_the_library() {
  everbyte::bridge::raw_text difference{"", 0};                     //@ raw
  auto* table = everbyte_bridge_stock({"", 0}, &difference);        //@ raw
  static_cast<void>(table);
  dlsym(nullptr, "everbyte_bridge_stock");                          //@ raw
}

// Descriptions by hand, which hide pointers from every compiler; and addresses as numbers.
struct hides { void* pointer; };
template <>
struct everbyte::fields<hides> {                                    //@ fields
  static constexpr std::string_view everbyte_name = "hides";
  using everbyte_list = everbyte::bridge::field_list<everbyte::bridge::field<std::uint64_t, 0, false>>;
};
struct believed { void* pointer; };
template <>
struct everbyte::bridge::is_psafe<believed, shop> : std::true_type {};  //@ fields
struct with_an_address {
  std::uintptr_t address;                                           //@ fields
};
EVERBYTE_FIELDS(with_an_address, address)

// Right programs: nothing below is refused.
struct pair_of_numbers {
  int first, second;
};
std::int64_t right(const things& root, const shop::counter& counter, numbers& all, char* bytes) {
  int number = 0;
  number = static_cast<int>(reinterpret_cast<std::uintptr_t>(bytes));
  static_cast<void>(const_cast<const thing&>(*root));
  auto value = (std::int32_t)root->value;
  auto result = shop::txn([&, number](auto& t) mutable {
    number = 2;
    int own = 1;
    own += value;
    std::vector<int> list;
    list.push_back(own);
    auto& same = own;
    same = 3;
    auto changed = root.mut(t);
    changed->value = own;
    *root.mut(t, &thing::value) += 1;
    std::int64_t& at = changed->value;
    at = 5;
    all.push_back(t, 1);
    for (auto next = root->next; next; next = next->next) next.mut(t)->value = 1;
    auto within = [&] { own = 4; };
    within();
    shop::txn([&](auto& inner) { own += static_cast<int>(counter.add(inner, 1)); });
    auto each = [&](int by) { counter.add(t, by); };
    std::function<void(int)> also = each;
    for (int one : list) each(one), also(one);
    return pair_of_numbers{own, list.front()};
  });
  counted = result.first;
  // everbyte: allow(cast) a test of the comment, alone on its line
  const_cast<thing&>(*root).value = 1;
  shop::txn([&](auto&) {
    number = 1;  // everbyte: allow(volatile) counts attempts, rolled back or not
  });
  return root->value;
}

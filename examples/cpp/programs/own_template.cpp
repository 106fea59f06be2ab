// A template of C++ that takes the allocator of a pool, and keeps its pointers alone: a queue.
// `own_template STORE first`; a second process goes on: `own_template STORE second`.
#include "archive.hpp"
#include "shop.hpp"

#include "require.hpp"

#include <stdexcept>
#include <string_view>

using stock::archive;
using stock::shop;

template <class T, class Allocator>
class queue {
 public:
  struct node {
    T value;
    typename Allocator::template of<node>::pointer next;
  };

  std::uint64_t size() const { return count; }
  const T& front() const { return first->value; }

  template <class Transaction>
  void push(Transaction& t, const T& value) {
    auto added = nodes::make(t, value, nullptr);
    if (last) *last.mut(t, &node::next) = added;
    else first = added;
    last = added;
    ++count;
  }
  template <class Transaction>
  T pop(Transaction& t) {
    auto gone = first;
    T value = gone->value;
    first = gone->next;
    if (!first) last = nullptr;
    --count;
    nodes::destroy(t, gone);
    return value;
  }

  using nodes = typename Allocator::template of<node>;
  typename nodes::pointer first, last;
  std::uint64_t count;
};

// The instances, and their fields.
using numbers = queue<double, everbyte::allocator<double, shop>>;
using number_node = numbers::node;
EVERBYTE_FIELDS(number_node, value, next)
EVERBYTE_FIELDS(numbers, first, last, count)

using marks = queue<std::int16_t, everbyte::allocator<std::int16_t, archive>>;
using mark_node = marks::node;
EVERBYTE_FIELDS(mark_node, value, next)
EVERBYTE_FIELDS(marks, first, last, count)

// The pointers of an instance read; what a roll-back takes back was logged by `mut`.
void a_roll_back_restores_all_nodes(const everbyte::object<numbers, shop>& all) {
  try {
    shop::txn([&](auto& t) {
      REQUIRE(all.mut(t)->pop(t) == 1.5);
      all.mut(t)->push(t, 9.5);
      all->first.mut(t)->value = 7;
      throw std::runtime_error("no");
    });
    REQUIRE(false);
  } catch (const std::runtime_error&) {
  }
  REQUIRE(all->size() == 3 && all->front() == 1.5 && all->first->next->value == 2.5 && !all->last->next);
}

int main(int, char** words) {
  bool is_first = std::string_view(words[2]) == "first";
  shop pool(words[1], {.create = is_first});
  auto all = pool.cpp_root<numbers>("numbers");
  if (is_first) {
    shop::txn([&](auto& t) {
      auto changed = all.mut(t);
      for (double value : {1.5, 2.5, 3.5}) changed->push(t, value);
    });
    a_roll_back_restores_all_nodes(all);
  }
  archive other(std::string(words[1]) + ".archive", {.create = is_first});
  auto few = other.cpp_root<marks>("marks");
  archive::txn([&](auto& t) { few.mut(t)->push(t, std::int16_t(7)); });
  REQUIRE(few->size() == (is_first ? 1u : 2u));
  if (!is_first) {
    auto gone = all->first;
    double sum = shop::txn([&](auto& t) {
      auto changed = all.mut(t);
      return changed->pop(t) + changed->pop(t) + changed->pop(t);
    });
    REQUIRE(sum == 7.5 && all->size() == 0 && !all->first && !all->last);
    // The pool owns it no more.
    must_refuse(everbyte::error_kind::invalid, "destroyed before", [&] { shop::txn([&](auto& t) { t.destroy(gone); }); });
  }
}

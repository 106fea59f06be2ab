/* Persistent containers with the interface of std's: roots of a pool whose library lists `std`.
 *
 *   auto names = pool.root<stock::shop::make_persistent<std::map<std::string, int>>>("names");
 *   stock::shop::txn([&](auto& t) { names.insert_or_assign(t, "one", 1); });
 *   for (auto [name, number] : names) std::cout << name << number;
 *
 * Elements: numbers, enumerations, classes that list their fields, and std::string, which is read
 *   as a std::string_view.
 * Reading is std's: const iterators, `find`, `at`, `size`. Changes take the transaction as their
 *   first argument, and `mut` gives the right to change an element in place.
 * Iterators, references and views end as std's do: an element stays where it is until it is
 *   removed or replaced; those of a vector end with every change of its size. All end with the
 *   roll-back of the transaction that made their elements, and iterators with the object that
 *   `root` has returned, even if that was moved.
 * Order and hash are std::less, std::hash and std::equal_to of the keys: the same in every program
 *   that opens the pool.
 */
#ifndef EVERBYTE_STD_HPP
#define EVERBYTE_STD_HPP

#include <everbyte/bridge.hpp>
#include <everbyte/std_keyed.hpp>
#include <everbyte/std_sequences.hpp>

#include <deque>
#include <list>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace everbyte {
namespace bridge {

template <class T>
inline constexpr bool never = false;

template <class Pool>
concept lists_std = requires { typename Pool::template std_vector<int>; };

template <class Pool>
constexpr void require_std() {
  static_assert(lists_std<Pool>, "this pool has no containers of std: add `std` to its list in `library!`");
}

}  // namespace bridge

template <class Std, class Pool>
struct persistent {
  static_assert(bridge::never<Std>,
                "make_persistent knows std::vector, string, deque, list, map, set, unordered_map and unordered_set, with the order, hash "
                "and allocator that std gives them: for another order or hash wrap the key in a class");
};

namespace bridge {
template <class Container, class Pool>
struct persistent_as {
  static_assert((require_std<Pool>(), true));
  using type = Container;
};
}  // namespace bridge

template <class T, class Pool>
struct persistent<std::vector<T>, Pool> : bridge::persistent_as<vector<T, Pool>, Pool> {};
template <class Pool>
struct persistent<std::vector<std::string>, Pool> : bridge::persistent_as<deque<std::string, Pool>, Pool> {};
template <class Pool>
struct persistent<std::string, Pool> : bridge::persistent_as<string<Pool>, Pool> {};
template <class T, class Pool>
struct persistent<std::deque<T>, Pool> : bridge::persistent_as<deque<T, Pool>, Pool> {};
template <class T, class Pool>
struct persistent<std::list<T>, Pool> : bridge::persistent_as<deque<T, Pool>, Pool> {};
template <class K, class V, class Pool>
struct persistent<std::map<K, V>, Pool> : bridge::persistent_as<map<K, V, Pool>, Pool> {};
template <class K, class Pool>
struct persistent<std::set<K>, Pool> : bridge::persistent_as<set<K, Pool>, Pool> {};
template <class K, class V, class Pool>
struct persistent<std::unordered_map<K, V>, Pool> : bridge::persistent_as<unordered_map<K, V, Pool>, Pool> {};
template <class K, class Pool>
struct persistent<std::unordered_set<K>, Pool> : bridge::persistent_as<unordered_set<K, Pool>, Pool> {};

}  // namespace everbyte

#endif

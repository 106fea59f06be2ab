/* Persistent maps and sets with the interface of std's. A part of everbyte/std.hpp.
 */
#ifndef EVERBYTE_STD_KEYED_HPP
#define EVERBYTE_STD_KEYED_HPP

#include <everbyte/std_sequences.hpp>

#include <cstddef>
#include <iterator>
#include <string>
#include <type_traits>
#include <utility>

namespace everbyte {
namespace bridge {

/* Maps and sets: `Parent` is the library's type, `Entry` what it lends. */
template <class Parent, class Entry, class K, class Pool>
class keyed : public Parent {
  template <class, class, std::size_t>
  friend class bridge::pool;

 protected:
  using Parent::Parent;
  using everbyte_argument = typename gen<K>::argument;
  using everbyte_entry = decltype(std::declval<Entry>().get());
  static constexpr bool is_ordered = requires(const Parent& of) { of.last(); };

 public:
  using key_type = K;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;

  /* Steps in O(log n), or O(1) of a hash. */
  class const_iterator {
   public:
    using iterator_category = std::conditional_t<is_ordered, std::bidirectional_iterator_tag, std::forward_iterator_tag>;
    using value_type = std::remove_cvref_t<everbyte_entry>;
    using difference_type = std::ptrdiff_t;
    using reference = everbyte_entry;
    using pointer = arrow_of<reference>;

    const_iterator() = default;
    reference operator*() const { return at_.get(); }
    pointer operator->() const { return arrow_to<reference>(at_.get()); }
    const_iterator& operator++() {
      at_ = of_->after(at_.key());
      return *this;
    }
    const_iterator operator++(int) {
      auto old = *this;
      ++*this;
      return old;
    }
    const_iterator& operator--()
      requires is_ordered
    {
      at_ = at_ ? of_->before(at_.key()) : of_->last();
      return *this;
    }
    const_iterator operator--(int)
      requires is_ordered
    {
      auto old = *this;
      --*this;
      return old;
    }
    bool operator==(const const_iterator& other) const { return at_ == other.at_; }

   private:
    friend class keyed;
    const_iterator(const Parent* of, Entry at) : of_(of), at_(at) {}
    const Parent* of_ = nullptr;
    Entry at_{};
  };
  using iterator = const_iterator;

  size_type size() const { return this->count_all(); }
  bool empty() const { return size() == 0; }
  const_iterator begin() const { return {this, this->first()}; }
  const_iterator end() const { return {this, Entry{}}; }
  std::reverse_iterator<const_iterator> rbegin() const
    requires is_ordered
  {
    return std::reverse_iterator(end());
  }
  std::reverse_iterator<const_iterator> rend() const
    requires is_ordered
  {
    return std::reverse_iterator(begin());
  }
  const_iterator find(everbyte_argument key) const { return {this, this->look(key)}; }
  bool contains(everbyte_argument key) const { return static_cast<bool>(this->look(key)); }
  size_type count(everbyte_argument key) const { return contains(key) ? 1 : 0; }
  const_iterator lower_bound(everbyte_argument key) const
    requires is_ordered
  {
    return {this, this->from(key)};
  }
  const_iterator upper_bound(everbyte_argument key) const
    requires is_ordered
  {
    auto found = this->look(key);
    return {this, found ? this->after(key) : this->from(key)};
  }

  std::pair<const_iterator, const_iterator> equal_range(everbyte_argument key) const {
    if constexpr (is_ordered) {
      return {lower_bound(key), upper_bound(key)};
    } else {
      auto found = find(key), behind = found;
      return {found, found == end() ? behind : ++behind};
    }
  }

  template <class Brand>
  size_type erase(transaction<Pool, Brand>& in, everbyte_argument key) const {
    return this->cut(in, key) ? 1 : 0;
  }
  template <class Brand>
  const_iterator erase(transaction<Pool, Brand>& in, const_iterator one) const {
    auto next = one;
    ++next;
    this->cut(in, one.at_.key());
    return next;
  }
  template <class Brand>
  void clear(transaction<Pool, Brand>& in) const {
    this->empty_out(in);
  }
};

template <class Parent, class K, class V, class Pool>
class keyed_map : public keyed<Parent, lent_pair<K, V>, K, Pool> {
  using everbyte_keyed = keyed<Parent, lent_pair<K, V>, K, Pool>;
  template <class, class, std::size_t>
  friend class bridge::pool;
  using everbyte_key = typename gen<K>::argument;
  using everbyte_mapped = typename gen<V>::argument;

 protected:
  using everbyte_keyed::everbyte_keyed;

 public:
  using mapped_type = V;
  using const_iterator = typename everbyte_keyed::const_iterator;

  typename stored<V>::view at(everbyte_key key) const {
    auto found = this->look(key);
    if (!found) out_of_range();
    return found.value();
  }

  /* A value, to be changed; a text is replaced, by `insert_or_assign`. */
  template <class Brand>
  changing<V, Pool, Brand> mut(transaction<Pool, Brand>& in, everbyte_key key) const {
    static_assert(!std::is_same_v<V, std::string>, "a text of the pool is replaced: use `insert_or_assign`");
    return this->everbyte_mut(in, at(key));
  }
  template <class Brand>
  std::pair<const_iterator, bool> emplace(transaction<Pool, Brand>& in, everbyte_key key, everbyte_mapped value) const {
    bool is_new = this->put(in, key, value, false);
    return {this->find(key), is_new};
  }
  template <class Brand>
  std::pair<const_iterator, bool> try_emplace(transaction<Pool, Brand>& in, everbyte_key key, everbyte_mapped value) const {
    return emplace(in, key, value);
  }
  template <class Brand>
  std::pair<const_iterator, bool> insert(transaction<Pool, Brand>& in, const std::pair<K, V>& one) const {
    return emplace(in, one.first, one.second);
  }
  template <class Brand>
  std::pair<const_iterator, bool> insert_or_assign(transaction<Pool, Brand>& in, everbyte_key key, everbyte_mapped value) const {
    bool is_new = this->put(in, key, value, true);
    return {this->find(key), is_new};
  }
};

template <class Parent, class K, class Pool>
class keyed_set : public keyed<Parent, lent<K>, K, Pool> {
  using everbyte_keyed = keyed<Parent, lent<K>, K, Pool>;
  template <class, class, std::size_t>
  friend class bridge::pool;
  using everbyte_key = typename gen<K>::argument;

 protected:
  using everbyte_keyed::everbyte_keyed;

 public:
  using value_type = K;
  using const_iterator = typename everbyte_keyed::const_iterator;

  template <class Brand>
  std::pair<const_iterator, bool> insert(transaction<Pool, Brand>& in, everbyte_key key) const {
    bool is_new = this->put(in, key);
    return {this->find(key), is_new};
  }
  template <class Brand>
  std::pair<const_iterator, bool> emplace(transaction<Pool, Brand>& in, everbyte_key key) const {
    return insert(in, key);
  }
};

}  // namespace bridge

#define EVERBYTE_CONTAINER(Name, Parameters, Parent)     \
  template <EVERBYTE_UNWRAP Parameters, class Pool>       \
  class Name : public EVERBYTE_UNWRAP Parent {            \
    using everbyte_parent = EVERBYTE_UNWRAP Parent;       \
    template <class, class, std::size_t>                  \
    friend class bridge::pool;                            \
    using everbyte_parent::everbyte_parent;               \
  }
#define EVERBYTE_UNWRAP(...) __VA_ARGS__

/* In place of the containers of std of these names; the keys of the first two are in order. */
EVERBYTE_CONTAINER(map, (class K, class V), (bridge::keyed_map<typename Pool::template std_map<K, V>, K, V, Pool>));
EVERBYTE_CONTAINER(set, (class K), (bridge::keyed_set<typename Pool::template std_set<K>, K, Pool>));
EVERBYTE_CONTAINER(unordered_map, (class K, class V), (bridge::keyed_map<typename Pool::template std_hash_map<K, V>, K, V, Pool>));
EVERBYTE_CONTAINER(unordered_set, (class K), (bridge::keyed_set<typename Pool::template std_hash_set<K>, K, Pool>));
#undef EVERBYTE_CONTAINER
#undef EVERBYTE_UNWRAP

}  // namespace everbyte

#endif

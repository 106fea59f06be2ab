/* Persistent sequences with the interface of std's: vector, string, deque. A part of
 * everbyte/std.hpp.
 */
#ifndef EVERBYTE_STD_SEQUENCES_HPP
#define EVERBYTE_STD_SEQUENCES_HPP

#include <everbyte/bridge.hpp>

#include <algorithm>
#include <compare>
#include <cstddef>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace everbyte {
namespace bridge {

/* Fails as `at` of std does. */
[[noreturn]] inline void out_of_range() {
#ifdef __cpp_exceptions
  throw std::out_of_range("everbyte: no such element");
#else
  end("no such element");
#endif
}

/* The result of `->`, for iterators whose `*` makes a value, which ends with the expression. */
template <class T>
struct arrow {
  T value;
  T* operator->() { return &value; }
};

/* The result of `->` of an iterator whose `*` has that type: the place of an element, where it has
 * one. */
template <class Reference>
using arrow_of = std::conditional_t<std::is_reference_v<Reference>, std::add_pointer_t<Reference>, arrow<Reference>>;

template <class Reference>
arrow_of<Reference> arrow_to(Reference element) {
  if constexpr (std::is_reference_v<Reference>) {
    return &element;
  } else {
    return {element};
  }
}

}  // namespace bridge

/* In place of std::vector; elements lie behind each other. */
template <class T, class Pool>
class vector : public Pool::template std_vector<T> {
  using everbyte_parent = typename Pool::template std_vector<T>;
  template <class, class, std::size_t>
  friend class bridge::pool;
  using everbyte_parent::everbyte_parent;

 public:
  using value_type = T;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;
  using const_reference = const T&;
  using const_iterator = const T*;
  using iterator = const_iterator;

  size_type size() const { return this->view().at.size / sizeof(T); }
  bool empty() const { return size() == 0; }
  const T* data() const { return reinterpret_cast<const T*>(this->view().at.bytes); }
  const_iterator begin() const { return data(); }
  const_iterator end() const { return data() + size(); }
  const_iterator cbegin() const { return begin(); }
  const_iterator cend() const { return end(); }
  std::reverse_iterator<const_iterator> rbegin() const { return std::reverse_iterator(end()); }
  std::reverse_iterator<const_iterator> rend() const { return std::reverse_iterator(begin()); }
  const T& operator[](size_type index) const { return data()[index]; }
  const T& at(size_type index) const {
    if (index >= size()) bridge::out_of_range();
    return data()[index];
  }
  const T& front() const { return at(0); }
  const T& back() const { return at(size() - 1); }

  /* An element, to be changed. */
  template <class Brand>
  changing<T, Pool, Brand> mut(transaction<Pool, Brand>& in, size_type index) const {
    return this->everbyte_mut(in, at(index));
  }
  template <class Brand>
  void push_back(transaction<Pool, Brand>& in, const T& value) const {
    this->put(in, size() * sizeof(T), T(value)); /* a copy: `value` may be an element */
  }
  template <class Brand, class... Arguments>
  void emplace_back(transaction<Pool, Brand>& in, Arguments&&... arguments) const {
    push_back(in, T{std::forward<Arguments>(arguments)...});
  }
  template <class Brand>
  void pop_back(transaction<Pool, Brand>& in) const {
    if (empty()) bridge::out_of_range();
    erase_at(in, size() - 1, size());
  }
  template <class Brand>
  const_iterator insert(transaction<Pool, Brand>& in, const_iterator before, const T& value) const {
    auto index = before - begin();
    this->put(in, static_cast<size_type>(index) * sizeof(T), T(value));
    return begin() + index;
  }
  template <class Brand>
  const_iterator erase(transaction<Pool, Brand>& in, const_iterator first, const_iterator last) const {
    auto index = first - begin();
    erase_at(in, static_cast<size_type>(index), static_cast<size_type>(last - begin()));
    return begin() + index;
  }
  template <class Brand>
  const_iterator erase(transaction<Pool, Brand>& in, const_iterator one) const {
    return erase(in, one, one + 1);
  }
  template <class Brand>
  void clear(transaction<Pool, Brand>& in) const {
    erase_at(in, 0, size());
  }
  template <class Brand>
  void reserve(transaction<Pool, Brand>& in, size_type count) const {
    if (count > size()) this->room(in, (count - size()) * sizeof(T));
  }
  template <class Brand>
  void resize(transaction<Pool, Brand>& in, size_type count, const T& value = T()) const {
    T copy(value);
    reserve(in, count);
    if (count < size()) erase_at(in, count, size());
    while (size() < count) push_back(in, copy);
  }
  /* The elements of a range that is no part of this vector. */
  template <class Brand, class Iterator>
  void assign(transaction<Pool, Brand>& in, Iterator first, Iterator last) const {
    clear(in);
    for (; first != last; ++first) push_back(in, static_cast<T>(*first));
  }

 private:
  template <class Brand>
  void erase_at(transaction<Pool, Brand>& in, size_type first, size_type last) const {
    this->cut(in, first * sizeof(T), last * sizeof(T));
  }
};

/* In place of std::string: any bytes. */
template <class Pool>
class string : public Pool::template std_vector<std::string> {
  using everbyte_parent = typename Pool::template std_vector<std::string>;
  template <class, class, std::size_t>
  friend class bridge::pool;
  using everbyte_parent::everbyte_parent;

 public:
  using value_type = char;
  using size_type = std::size_t;
  using const_iterator = std::string_view::const_iterator;
  using iterator = const_iterator;

  operator std::string_view() const { return text(); }
  std::string str() const { return std::string(text()); }
  const char* data() const { return text().data(); }
  size_type size() const { return text().size(); }
  bool empty() const { return text().empty(); }
  const_iterator begin() const { return text().begin(); }
  const_iterator end() const { return text().end(); }
  char operator[](size_type index) const { return text()[index]; }
  size_type find(std::string_view part, size_type from = 0) const { return text().find(part, from); }
  bool operator==(std::string_view other) const { return text() == other; }

  template <class Brand>
  void append(transaction<Pool, Brand>& in, std::string_view more) const {
    this->put(in, size(), std::string(more)); /* a copy: `more` may be a part of this text */
  }
  template <class Brand>
  void push_back(transaction<Pool, Brand>& in, char one) const {
    this->put(in, size(), std::string_view(&one, 1));
  }
  template <class Brand>
  void insert(transaction<Pool, Brand>& in, size_type at, std::string_view more) const {
    if (at > size()) bridge::out_of_range();
    this->put(in, at, std::string(more));
  }
  template <class Brand>
  void erase(transaction<Pool, Brand>& in, size_type at, size_type count = std::string_view::npos) const {
    if (at > size()) bridge::out_of_range();
    this->cut(in, at, at + std::min(count, size() - at));
  }
  template <class Brand>
  void assign(transaction<Pool, Brand>& in, std::string_view now) const {
    std::string copy(now);
    clear(in);
    this->put(in, 0, copy);
  }
  template <class Brand>
  void clear(transaction<Pool, Brand>& in) const {
    this->cut(in, 0, size());
  }

 private:
  std::string_view text() const {
    return this->view().get();
  }
};

/* In place of std::deque, std::list, and a std::vector of texts: elements stay where they are until
 * they are removed. Elements are found by their index; an insertion or removal in the middle moves
 * the places of those behind it. */
template <class T, class Pool>
class deque : public Pool::template std_deque<T> {
  using everbyte_parent = typename Pool::template std_deque<T>;
  template <class, class, std::size_t>
  friend class bridge::pool;
  using everbyte_parent::everbyte_parent;
  using everbyte_view = typename bridge::stored<T>::view;
  using everbyte_argument = typename bridge::gen<T>::argument;

 public:
  using value_type = T;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;
  using const_reference = everbyte_view;

  class const_iterator {
   public:
    using iterator_category = std::random_access_iterator_tag;
    using value_type = T;
    using difference_type = std::ptrdiff_t;
    using reference = everbyte_view;
    using pointer = bridge::arrow_of<reference>;

    const_iterator() = default;
    reference operator*() const { return (*of_)[index_]; }
    reference operator[](difference_type by) const { return *(*this + by); }
    pointer operator->() const { return bridge::arrow_to<reference>(**this); }
    const_iterator& operator+=(difference_type by) {
      index_ += static_cast<size_type>(by);
      return *this;
    }
    const_iterator& operator-=(difference_type by) { return *this += -by; }
    const_iterator& operator++() { return *this += 1; }
    const_iterator& operator--() { return *this -= 1; }
    const_iterator operator++(int) {
      auto old = *this;
      ++*this;
      return old;
    }
    const_iterator operator--(int) {
      auto old = *this;
      --*this;
      return old;
    }
    friend const_iterator operator+(const_iterator at, difference_type by) { return at += by; }
    friend const_iterator operator+(difference_type by, const_iterator at) { return at += by; }
    friend const_iterator operator-(const_iterator at, difference_type by) { return at -= by; }
    friend difference_type operator-(const const_iterator& one, const const_iterator& other) {
      return static_cast<difference_type>(one.index_ - other.index_);
    }
    bool operator==(const const_iterator& other) const { return index_ == other.index_; }
    auto operator<=>(const const_iterator& other) const { return index_ <=> other.index_; }

   private:
    friend class deque;
    const_iterator(const deque* of, size_type index) : of_(of), index_(index) {}
    const deque* of_ = nullptr;
    size_type index_ = 0;
  };
  using iterator = const_iterator;

  size_type size() const { return this->count(); }
  bool empty() const { return size() == 0; }
  const_iterator begin() const { return {this, 0}; }
  const_iterator end() const { return {this, size()}; }
  std::reverse_iterator<const_iterator> rbegin() const { return std::reverse_iterator(end()); }
  std::reverse_iterator<const_iterator> rend() const { return std::reverse_iterator(begin()); }
  everbyte_view operator[](size_type index) const { return at(index); }
  everbyte_view at(size_type index) const {
    auto found = this->view(index);
    if (!found) bridge::out_of_range();
    return found.get();
  }
  everbyte_view front() const { return at(0); }
  everbyte_view back() const { return at(size() - 1); }

  /* An element, to be changed; a text is replaced, by `set`. */
  template <class Brand>
  changing<T, Pool, Brand> mut(transaction<Pool, Brand>& in, size_type index) const {
    static_assert(!std::is_same_v<T, std::string>, "a text of the pool is replaced: use `set`");
    return this->everbyte_mut(in, at(index));
  }
  template <class Brand>
  void set(transaction<Pool, Brand>& in, size_type index, everbyte_argument value) const {
    if (index >= size()) bridge::out_of_range();
    this->replace(in, index, value);
  }
  template <class Brand>
  void push_back(transaction<Pool, Brand>& in, everbyte_argument value) const {
    this->put(in, size(), value);
  }
  template <class Brand>
  void push_front(transaction<Pool, Brand>& in, everbyte_argument value) const {
    this->put(in, 0, value);
  }
  template <class Brand>
  void pop_back(transaction<Pool, Brand>& in) const {
    if (empty()) bridge::out_of_range();
    this->cut(in, size() - 1, size());
  }
  template <class Brand>
  void pop_front(transaction<Pool, Brand>& in) const {
    if (empty()) bridge::out_of_range();
    this->cut(in, 0, 1);
  }
  template <class Brand>
  const_iterator insert(transaction<Pool, Brand>& in, const_iterator before, everbyte_argument value) const {
    this->put(in, before.index_, value);
    return before;
  }
  template <class Brand>
  const_iterator erase(transaction<Pool, Brand>& in, const_iterator first, const_iterator last) const {
    this->cut(in, first.index_, last.index_);
    return first;
  }
  template <class Brand>
  const_iterator erase(transaction<Pool, Brand>& in, const_iterator one) const {
    return erase(in, one, one + 1);
  }
  template <class Brand>
  void clear(transaction<Pool, Brand>& in) const {
    this->cut(in, 0, size());
  }
};

}  // namespace everbyte

#endif

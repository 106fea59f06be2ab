/* Classes of C++ that may lie in a pool: each lists its fields.
 *
 *   struct point { std::int64_t x; double y; };
 *   EVERBYTE_FIELDS(point, x, y)
 *
 * The list stands in the global namespace, behind the class. A pool may hold numbers,
 * enumerations, `pointer_t` of that pool, arrays of these, and classes that list their fields.
 * The list is complete and in order: a class that has another field, or an unnamed union, does not
 * compile. Such a class has no vtable, no references, no plain pointers and no function pointers,
 * no `mutable` fields, and is no union; it is copied as bytes. One that has a destructor is made
 * in the pool and never copied: its copy constructor and assignment are deleted.
 *
 * The list, and the lists of the classes that its pointers lead to, become a part of the pool: a
 * program whose class differs is refused, with the field.
 */
#ifndef EVERBYTE_FIELDS_HPP
#define EVERBYTE_FIELDS_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace everbyte {

/* A pointer within a pool: bridge.hpp. */
template <class T, class Pool>
class pointer_t;

/* The fields of a class; specialised by EVERBYTE_FIELDS. */
template <class T>
struct fields;

template <class T>
concept lists_fields = requires { typename fields<T>::everbyte_list; };

namespace bridge {

template <class T, std::size_t At, bool IsMutable>
struct field {
  using type = T;
  static constexpr std::size_t at = At, size = sizeof(T), align = alignof(T);
  static constexpr bool is_mutable = IsMutable;
};

template <class... Fields>
struct field_list {};

template <class T, class Pool>
struct is_psafe : std::bool_constant<(std::is_arithmetic_v<T> && !std::is_same_v<T, long double>) || std::is_enum_v<T>> {};
template <class T, class Pool>
inline constexpr bool is_psafe_v = is_psafe<std::remove_cv_t<T>, Pool>::value;
template <class T, class Pool>
struct is_psafe<pointer_t<T, Pool>, Pool> : std::true_type {};
template <class T, std::size_t N, class Pool>
struct is_psafe<T[N], Pool> : std::bool_constant<is_psafe_v<T, Pool>> {};
template <class T, std::size_t N, class Pool>
struct is_psafe<std::array<T, N>, Pool> : std::bool_constant<N != 0 && is_psafe_v<T, Pool>> {};

/* Why a class cannot live in a pool. */
enum class refusal { none, unlisted, is_union, is_virtual, does_more_than_copy, destructor_and_copies, std_container, field_type, mutable_field, holes };

/* Containers of std, texts included, keep plain pointers. */
template <class T>
concept is_std_container = requires { typename T::allocator_type; };

template <class T, class Pool, class... Fields>
constexpr refusal refusal_of_fields(field_list<Fields...>) {
  if ((is_std_container<typename Fields::type> || ...)) return refusal::std_container;
  if (!(is_psafe_v<typename Fields::type, Pool> && ...)) return refusal::field_type;
  if ((Fields::is_mutable || ...)) return refusal::mutable_field;
  /* Each field lies behind the one before it, as near as its alignment allows. */
  std::size_t at = 0;
  bool fits = true;
  ((fits = fits && Fields::at == (at + Fields::align - 1) / Fields::align * Fields::align, at = Fields::at + Fields::size), ...);
  fits = fits && sizeof(T) == (at + alignof(T) - 1) / alignof(T) * alignof(T) && alignof(T) <= 16;
  return fits ? refusal::none : refusal::holes;
}

template <class T, class Pool>
constexpr refusal refusal_of() {
  if constexpr (lists_fields<T>) {
    if (std::is_union_v<T>) return refusal::is_union;
    if (std::is_polymorphic_v<T>) return refusal::is_virtual;
    refusal found = refusal_of_fields<T, Pool>(typename fields<T>::everbyte_list{});
    if (found == refusal::none && !std::is_trivially_destructible_v<T>) {
      return std::is_copy_constructible_v<T> || std::is_move_constructible_v<T> || std::is_copy_assignable_v<T> || std::is_move_assignable_v<T>
                 ? refusal::destructor_and_copies
                 : refusal::none;
    }
    if (found == refusal::none && !std::is_trivially_copyable_v<T>) return refusal::does_more_than_copy;
    return found;
  } else {
    if (is_std_container<T>) return refusal::std_container;
    return is_psafe_v<T, Pool> ? refusal::none : refusal::unlisted;
  }
}

template <class T, class Pool>
  requires lists_fields<T>
struct is_psafe<T, Pool> : std::bool_constant<refusal_of<T, Pool>() == refusal::none> {};

/* Refuses a type that cannot live in a pool, with the reason. */
template <class T, class Pool>
constexpr void require_psafe() {
  constexpr refusal found = refusal_of<T, Pool>();
  static_assert(found != refusal::unlisted,
                "this class cannot live in the pool: list its fields with EVERBYTE_FIELDS; each is a number, an enumeration, "
                "a pointer_t of the same pool, an array of these, or a class that lists its fields");
  static_assert(found != refusal::is_union, "a union cannot live in the pool: it does not say which of its fields is there");
  static_assert(found != refusal::is_virtual,
                "a class with virtual functions cannot live in the pool: their table has another address in the next run");
  static_assert(found != refusal::does_more_than_copy,
                "this class cannot live in the pool: it is copied as bytes, so it has no copy constructor and assignment of its own");
  static_assert(found != refusal::destructor_and_copies,
                "a class with a destructor lives in the pool if it is not copied, or its destructor would run for each copy: delete its "
                "copy constructor and its assignment");
  static_assert(found != refusal::std_container,
                "a container of std keeps plain pointers, which mean nothing in the next run: use POOL::make_persistent of it, from "
                "<everbyte/std.hpp>, as a root of its own");
  static_assert(found != refusal::field_type,
                "a field of this class cannot live in the pool: each is a number, an enumeration, a pointer_t of the same pool, an "
                "array of these, or a class that lists its fields");
  static_assert(found != refusal::mutable_field,
                "a mutable field cannot live in the pool: it would change without a transaction");
  static_assert(found != refusal::holes,
                "the fields of this class are not listed in their order, or it has a base with fields, or an alignment of over 16");
}

/* The text of a type, as docs/formats/object.md has it. */
template <class T>
std::string type_name() {
  if constexpr (std::is_same_v<T, bool>) {
    return "bool";
  } else if constexpr (std::is_enum_v<T>) {
    return type_name<std::underlying_type_t<T>>();
  } else if constexpr (std::is_floating_point_v<T>) {
    return sizeof(T) == 4 ? "f32" : "f64";
  } else if constexpr (std::is_arithmetic_v<T>) {
    return (std::is_signed_v<T> ? "i" : "u") + std::to_string(8 * sizeof(T));
  } else {
    static_assert(lists_fields<T>, "a pointer_t leads to a class that lists no fields: list them with EVERBYTE_FIELDS");
    return std::string(fields<T>::everbyte_name);
  }
}

/* Registers the destructor of a class, if it has one: bridge_wire.hpp. */
template <class T, class Library>
void require_destructor();

/* The name of a type without `const`, and the lines of the classes in it and behind it. */
template <class T>
struct named {
  static std::string name() { return type_name<T>(); }
  static void describe(std::string&) {}
};
template <class T>
using named_plain = named<std::remove_cv_t<T>>;
template <class T, class Pool>
struct named<pointer_t<T, Pool>> {
  static std::string name() { return "pointer_t<" + named_plain<T>::name() + ">"; }
  static void describe(std::string& text) {
    require_psafe<std::remove_cv_t<T>, Pool>();
    require_destructor<std::remove_cv_t<T>, typename Pool::library>(); /* of objects that this program may only find */
    named_plain<T>::describe(text);
  }
};
template <class T, std::size_t N>
struct named<std::array<T, N>> {
  static std::string name() { return "[" + named_plain<T>::name() + "; " + std::to_string(N) + "]"; }
  static void describe(std::string& text) { named_plain<T>::describe(text); }
};
template <class T, std::size_t N>
struct named<T[N]> : named<std::array<T, N>> {};
template <class T>
  requires lists_fields<T>
struct named<T> {
  static std::string name() { return std::string(fields<T>::everbyte_name); }
  static void describe(std::string& text) {
    std::string line = name() + " " + std::to_string(sizeof(T)) + " " + std::to_string(alignof(T)) + " {";
    each(line, typename fields<T>::everbyte_list{});
    line += " }\n";
    if (text.find("\n" + line) != std::string::npos) return; /* described before; classes lead to each other */
    text += line;
    nested(text, typename fields<T>::everbyte_list{});
  }

 private:
  template <class... Fields>
  static void each(std::string& line, field_list<Fields...>) {
    std::size_t index = 0;
    ((line += (index == 0 ? " " : "; ") + std::string(fields<T>::everbyte_names[index]) + ": " + named_plain<typename Fields::type>::name() + " @" +
              std::to_string(Fields::at),
      ++index),
     ...);
  }
  template <class... Fields>
  static void nested(std::string& text, field_list<Fields...>) {
    (named_plain<typename Fields::type>::describe(text), ...);
  }
};

/* Copies a value without the bytes of its padding, which hold anything: `to` begins as zeros. */
template <class T>
struct copier {
  static void copy(std::byte* to, const T& from) { std::memcpy(to, &from, sizeof(T)); }
};
template <class T, std::size_t N>
struct copier<std::array<T, N>> {
  static void copy(std::byte* to, const std::array<T, N>& from) {
    for (std::size_t index = 0; index < N; ++index) copier<std::remove_cv_t<T>>::copy(to + index * sizeof(T), from[index]);
  }
};
template <class T, std::size_t N>
struct copier<T[N]> {
  static void copy(std::byte* to, const T (&from)[N]) {
    for (std::size_t index = 0; index < N; ++index) copier<std::remove_cv_t<T>>::copy(to + index * sizeof(T), from[index]);
  }
};
template <class T>
  requires lists_fields<T>
struct copier<T> {
  static void copy(std::byte* to, const T& from) { fields<T>::everbyte_copy(to, from); }
};
template <class T>
void copy_field(std::byte* to, const T& from) {
  copier<std::remove_cv_t<T>>::copy(to, from);
}

/* The description of a class, made once. */
template <class T>
const std::string& description_of() {
  static const std::string text = [] {
    std::string lines = "root " + named<T>::name() + "\n";
    named<T>::describe(lines);
    return lines;
  }();
  return text;
}

}  // namespace bridge

/* Types whose values may lie in a pool of type `Pool`. */
template <class T, class Pool>
concept psafe = bridge::is_psafe_v<T, Pool>;

}  // namespace everbyte

/* Up to 16 fields. `everbyte_all` does not compile if the class has others: there is a name for
 * each. */
#define EVERBYTE_FIELDS(Class, ...)                                                                   \
  template <>                                                                                         \
  struct everbyte::fields<Class> {                                                                    \
    using everbyte_own = Class;                                                                       \
    static constexpr std::string_view everbyte_name = #Class;                                         \
    using everbyte_list =                                                                             \
        everbyte::bridge::field_list<EVERBYTE_EACH(EVERBYTE_FIELD, __VA_ARGS__)>;                     \
    static constexpr std::string_view everbyte_names[] = {                                            \
        EVERBYTE_EACH(EVERBYTE_FIELD_NAME, __VA_ARGS__)};                                             \
    static void everbyte_all(const everbyte_own& everbyte_of) {                                       \
      [[maybe_unused]] const auto& [EVERBYTE_EACH(EVERBYTE_FIELD_BOUND, __VA_ARGS__)] = everbyte_of;  \
    }                                                                                                 \
    static void everbyte_copy(std::byte* everbyte_to, const everbyte_own& everbyte_of) {              \
      EVERBYTE_EACH(EVERBYTE_FIELD_COPIED, __VA_ARGS__);                                              \
    }                                                                                                 \
  };
#define EVERBYTE_FIELD(one)                                                                           \
  everbyte::bridge::field<decltype(everbyte_own::one), offsetof(everbyte_own, one),                   \
                          !std::is_const_v<std::remove_reference_t<decltype((std::declval<const everbyte_own&>().one))>>>
#define EVERBYTE_FIELD_NAME(one) #one
#define EVERBYTE_FIELD_BOUND(one) everbyte_bound_##one
#define EVERBYTE_FIELD_COPIED(one) everbyte::bridge::copy_field(everbyte_to + offsetof(everbyte_own, one), everbyte_of.one)
#define EVERBYTE_EACH(macro, ...)                                                                     \
  EVERBYTE_PICK(__VA_ARGS__, EVERBYTE_E16, EVERBYTE_E15, EVERBYTE_E14, EVERBYTE_E13, EVERBYTE_E12,    \
                EVERBYTE_E11, EVERBYTE_E10, EVERBYTE_E9, EVERBYTE_E8, EVERBYTE_E7, EVERBYTE_E6,       \
                EVERBYTE_E5, EVERBYTE_E4, EVERBYTE_E3, EVERBYTE_E2, EVERBYTE_E1, )                    \
  (macro, __VA_ARGS__)
#define EVERBYTE_PICK(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, picked, ...) picked
#define EVERBYTE_E1(macro, a) macro(a)
#define EVERBYTE_E2(macro, a, ...) macro(a), EVERBYTE_E1(macro, __VA_ARGS__)
#define EVERBYTE_E3(macro, a, ...) macro(a), EVERBYTE_E2(macro, __VA_ARGS__)
#define EVERBYTE_E4(macro, a, ...) macro(a), EVERBYTE_E3(macro, __VA_ARGS__)
#define EVERBYTE_E5(macro, a, ...) macro(a), EVERBYTE_E4(macro, __VA_ARGS__)
#define EVERBYTE_E6(macro, a, ...) macro(a), EVERBYTE_E5(macro, __VA_ARGS__)
#define EVERBYTE_E7(macro, a, ...) macro(a), EVERBYTE_E6(macro, __VA_ARGS__)
#define EVERBYTE_E8(macro, a, ...) macro(a), EVERBYTE_E7(macro, __VA_ARGS__)
#define EVERBYTE_E9(macro, a, ...) macro(a), EVERBYTE_E8(macro, __VA_ARGS__)
#define EVERBYTE_E10(macro, a, ...) macro(a), EVERBYTE_E9(macro, __VA_ARGS__)
#define EVERBYTE_E11(macro, a, ...) macro(a), EVERBYTE_E10(macro, __VA_ARGS__)
#define EVERBYTE_E12(macro, a, ...) macro(a), EVERBYTE_E11(macro, __VA_ARGS__)
#define EVERBYTE_E13(macro, a, ...) macro(a), EVERBYTE_E12(macro, __VA_ARGS__)
#define EVERBYTE_E14(macro, a, ...) macro(a), EVERBYTE_E13(macro, __VA_ARGS__)
#define EVERBYTE_E15(macro, a, ...) macro(a), EVERBYTE_E14(macro, __VA_ARGS__)
#define EVERBYTE_E16(macro, a, ...) macro(a), EVERBYTE_E15(macro, __VA_ARGS__)

#endif

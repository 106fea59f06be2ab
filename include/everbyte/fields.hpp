/* Classes of C++ that may lie in a pool: each lists its fields.
 *
 *   struct point { std::int64_t x; double y; };
 *   EVERBYTE_FIELDS(point, x, y)
 *
 * The list stands in the global namespace, behind the class. A pool may hold numbers,
 * enumerations, `pointer_t` of that pool, arrays of these, and classes that list their fields. The
 * fields must tile the object, in order, so that no pointer that is not listed fits between them.
 * Such a class has no vtable, no references, no plain pointers and no function pointers.
 *
 * The list becomes a part of the pool: a program whose class differs is refused, with the field.
 */
#ifndef EVERBYTE_FIELDS_HPP
#define EVERBYTE_FIELDS_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

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

template <class T, std::size_t At>
struct field {
  using type = T;
  static constexpr std::size_t at = At, size = sizeof(T), align = alignof(T);
};

template <class... Fields>
struct field_list {};

template <class T, class Pool>
struct is_psafe : std::bool_constant<(std::is_arithmetic_v<T> && !std::is_same_v<T, long double>) || std::is_enum_v<T>> {};
template <class T, class Pool>
inline constexpr bool is_psafe_v = is_psafe<std::remove_const_t<T>, Pool>::value;
template <class T, class Pool>
struct is_psafe<pointer_t<T, Pool>, Pool> : std::true_type {};
template <class T, std::size_t N, class Pool>
struct is_psafe<T[N], Pool> : std::bool_constant<is_psafe_v<T, Pool>> {};
template <class T, std::size_t N, class Pool>
struct is_psafe<std::array<T, N>, Pool> : std::bool_constant<is_psafe_v<T, Pool>> {};

/* Whether the fields are allowed, and leave no place for another one: what lies between them is
 * padding that their alignment explains. */
template <class T, class Pool, class... Fields>
constexpr bool tiles(field_list<Fields...>) {
  std::size_t at = 0;
  bool fits = (is_psafe_v<typename Fields::type, Pool> && ...);
  ((fits = fits && Fields::at == (at + Fields::align - 1) / Fields::align * Fields::align, at = Fields::at + Fields::size), ...);
  return fits && sizeof(T) == (at + alignof(T) - 1) / alignof(T) * alignof(T) && alignof(T) <= 16;
}

template <class T, class Pool>
  requires lists_fields<T>
struct is_psafe<T, Pool>
    : std::bool_constant<!std::is_polymorphic_v<T> && std::is_trivially_copyable_v<T> && tiles<T, Pool>(typename fields<T>::everbyte_list{})> {};

/* The text of a type, as docs/formats/object.md has it. */
template <class T>
std::string type_name() {
  if constexpr (std::is_array_v<T>) {
    return "[" + type_name<std::remove_extent_t<T>>() + "; " + std::to_string(std::extent_v<T>) + "]";
  } else if constexpr (std::is_same_v<T, bool>) {
    return "bool";
  } else if constexpr (std::is_enum_v<T>) {
    return type_name<std::underlying_type_t<T>>();
  } else if constexpr (std::is_floating_point_v<T>) {
    return sizeof(T) == 4 ? "f32" : "f64";
  } else if constexpr (std::is_arithmetic_v<T>) {
    return (std::is_signed_v<T> ? "i" : "u") + std::to_string(8 * sizeof(T));
  } else {
    return std::string(fields<T>::everbyte_name);
  }
}

template <class T>
struct named {
  static std::string name() { return type_name<std::remove_const_t<T>>(); }
  static void describe(std::string&) {}
};
template <class T, class Pool>
struct named<pointer_t<T, Pool>> {
  static std::string name() { return "pointer_t<" + std::string(named<T>::name()) + ">"; }
  static void describe(std::string&) {}
};
template <class T, std::size_t N>
struct named<std::array<T, N>> {
  static std::string name() { return "[" + named<T>::name() + "; " + std::to_string(N) + "]"; }
  static void describe(std::string& text) { named<T>::describe(text); }
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
    if (text.find("\n" + line) != std::string::npos) return;
    text += line;
    nested(text, typename fields<T>::everbyte_list{});
  }

 private:
  template <class... Fields>
  static void each(std::string& line, field_list<Fields...>) {
    std::size_t index = 0;
    ((line += (index == 0 ? " " : "; ") + std::string(fields<T>::everbyte_names[index]) + ": " + named<typename Fields::type>::name() + " @" +
              std::to_string(Fields::at),
      ++index),
     ...);
  }
  template <class... Fields>
  static void nested(std::string& text, field_list<Fields...>) {
    (named<typename Fields::type>::describe(text), ...);
  }
};

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

/* Up to 16 fields. */
#define EVERBYTE_FIELDS(Class, ...)                                                                   \
  template <>                                                                                         \
  struct everbyte::fields<Class> {                                                                    \
    using everbyte_own = Class;                                                                       \
    static constexpr std::string_view everbyte_name = #Class;                                         \
    using everbyte_list =                                                                             \
        everbyte::bridge::field_list<EVERBYTE_EACH(EVERBYTE_FIELD, __VA_ARGS__)>;                     \
    static constexpr std::string_view everbyte_names[] = {                                            \
        EVERBYTE_EACH(EVERBYTE_FIELD_NAME, __VA_ARGS__)};                                             \
  };
#define EVERBYTE_FIELD(one) everbyte::bridge::field<decltype(everbyte_own::one), offsetof(everbyte_own, one)>
#define EVERBYTE_FIELD_NAME(one) #one
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

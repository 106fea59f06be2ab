/* The boundary between C++ and Rust: errors, the table of a library's functions, and values that
 * cross. A part of everbyte/bridge.hpp. Programs use the errors alone; the rest changes.
 */
#ifndef EVERBYTE_BRIDGE_WIRE_HPP
#define EVERBYTE_BRIDGE_WIRE_HPP

#include <everbyte/fields.hpp>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace everbyte {

/* The kind of an error; those of the store are in docs/manual/errors.md. */
enum class error_kind : std::uint32_t {
  not_found = 1,
  exists = 2,
  busy = 3,
  denied = 4,
  no_space = 5,
  quota = 6,
  invalid = 7,
  too_large = 8,
  damaged = 9,
  newer = 10,
  foreign = 11,
  poisoned = 12,
  conflict = 13,
  unsupported = 14,
  read_only = 15,
  interrupted = 16,
  io = 17,
  panicked = 100, /* a panic in Rust: the transaction around it is rolled back */
  refused = 101,  /* an exported method returned an error */
};

/* A failed call. */
class error : public std::runtime_error {
 public:
  error(error_kind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  error_kind kind() const noexcept { return kind_; }

 private:
  error_kind kind_;
};

/* A panic in Rust. */
class panic_error : public error {
 public:
  explicit panic_error(const std::string& message) : error(error_kind::panicked, message) {}
};
namespace bridge {

using entry = void (*)();
using status = std::uint32_t;
inline constexpr status done = 0, failed = 1, thrown = 2;

/* The types of the boundary. */
struct raw_text {
  const char* bytes;
  std::size_t size;
};
struct raw_string {
  char* bytes;
  std::size_t size;
  std::size_t capacity;
};
struct raw_fault {
  std::uint32_t kind;
  const char* bytes;
  std::size_t size;
};
struct raw_options {
  raw_text path, name, backend, durability;
  std::uint64_t max, span;
  std::uint32_t create, reserved;
};
struct raw_object {
  raw_text name, description;
  const void* bytes;
  std::size_t size;
  std::uint64_t has_destructor;
};
struct raw_hash {
  const void* context;
  status (*call)(const void*, raw_text, std::uint64_t*) noexcept;
};
struct raw_equal {
  const void* context;
  status (*call)(const void*, raw_text, raw_text, std::uint8_t*) noexcept;
};
struct raw_order {
  const void* context;
  status (*call)(const void*, raw_text, raw_text, std::int8_t*) noexcept;
};
struct raw_visit {
  const void* context;
  status (*call)(const void*, raw_text, raw_text) noexcept;
};
template <class R>
struct raw_option {
  std::uint8_t is_some;
  R value;
};

inline raw_text raw(std::string_view text) { return {text.data(), text.size()}; }

/* A word that threads share. It takes the place of std::atomic, whose header takes g++ a quarter of
 * the time that it takes for all of this. */
template <class T>
class shared_word {
 public:
  constexpr explicit shared_word(T value) : value_(value) {}
  shared_word(const shared_word&) = delete;
  shared_word& operator=(const shared_word&) = delete;

  T relaxed() const { return __atomic_load_n(&value_, __ATOMIC_RELAXED); }
  T acquire() const { return __atomic_load_n(&value_, __ATOMIC_ACQUIRE); }
  void release(T value) { __atomic_store_n(&value_, value, __ATOMIC_RELEASE); }
  /* For counts of references: a new one needs no order, the last one sees what all others did. */
  void increment() { __atomic_fetch_add(&value_, 1, __ATOMIC_RELAXED); }
  bool decrement_to_zero() { return __atomic_fetch_sub(&value_, 1, __ATOMIC_ACQ_REL) == 1; }

 private:
  T value_;
};

[[noreturn]] inline void end(std::string_view message) {
  std::fprintf(stderr, "everbyte: %.*s\n", static_cast<int>(message.size()), message.data());
  std::abort();
}

/* The table of a library's functions. `Library` is made by `everbyte bridge build`. */
template <class Library>
struct table {
  [[gnu::always_inline]] static const entry* entries() {
    static constinit shared_word<const entry*> known{nullptr};
    const entry* found = known.acquire();
    if (found == nullptr) [[unlikely]] known.release(found = attached());
    return found;
  }

  template <class Function>
  static Function* at(std::size_t index) {
    return reinterpret_cast<Function*>(entries()[index]);
  }

 private:
  /* A header of another library ends the program, before it has opened anything. */
  [[gnu::cold, gnu::noinline]] static const entry* attached() {
    raw_text difference{"", 0};
    const entry* found = Library::attach(raw(Library::description), &difference);
    if (found == nullptr) {
      std::fprintf(stderr, "everbyte: the header of `%s` does not fit its library: %.*s; make the headers anew with `everbyte bridge build`\n",
                   Library::name, static_cast<int>(difference.size), difference.bytes);
      std::_Exit(78);
    }
    return found;
  }
};

/* Throws the fault of this thread's last call. */
template <class Library>
[[noreturn, gnu::cold, gnu::noinline]] void raise() {
  raw_fault fault{0, "", 0};
  table<Library>::template at<void(raw_fault*)>(0)(&fault);
#ifdef __cpp_exceptions
  std::string message(fault.bytes, fault.size);
  if (static_cast<error_kind>(fault.kind) == error_kind::panicked) throw panic_error(message);
  throw error(static_cast<error_kind>(fault.kind), message);
#else
  end({fault.bytes, fault.size});
#endif
}

/* Throws for a call that the library is not asked for. */
[[noreturn, gnu::cold, gnu::noinline]] inline void refuse_in(std::string_view pool, const char* why) {
  char message[256];
  std::snprintf(message, sizeof message, "pool type `%.*s`: %s", static_cast<int>(pool.size()), pool.data(), why);
#ifdef __cpp_exceptions
  throw error(error_kind::invalid, message);
#else
  end(message);
#endif
}
template <class Pool>
[[noreturn]] void refuse(const char* why) {
  refuse_in(Pool::type_name, why);
}

#ifdef __cpp_exceptions
/* The exception of a callback, on its way through Rust. One for the program and its shared objects,
 * whatever visibility they are compiled with: the destructor of one is called for another. */
[[gnu::visibility("default")]] inline thread_local std::exception_ptr callback_exception{};
#endif

template <class Library>
[[noreturn, gnu::cold, gnu::noinline]] void refused(status of) {
#ifdef __cpp_exceptions
  if (of == thrown) {
    /* Null where the linker has kept the variables of a program and a shared object apart. */
    if (auto exception = std::exchange(callback_exception, nullptr)) std::rethrow_exception(std::move(exception));
    throw error(error_kind::unsupported, "a callback or a destructor of another shared object has thrown");
  }
#endif
  static_cast<void>(of);
  raise<Library>();
}

/* A part of every call, so it is inlined in all of them. */
template <class Library>
[[gnu::always_inline]] inline void require(status of) {
  if (of != done) [[unlikely]] refused<Library>(of);
}

/* A reference to what the library has opened, which is closed when the last one ends. It takes the
 * place of std::shared_ptr, whose header takes compilers longer than all of this. */
class counted {
 public:
  /* `within`: where it was opened, which stays open as long. */
  using closing = void (*)(const void* within, const void* at) noexcept;

  [[gnu::noinline]] counted(const void* at, closing closes, const counted* within = nullptr)
      : at_(at), of_(new (std::nothrow) block{shared_word<std::size_t>(1), at, closes, within == nullptr ? nullptr : within->of_}) {
    if (of_ == nullptr) {
      closes(within == nullptr ? nullptr : within->at_, at);
#ifdef __cpp_exceptions
      throw std::bad_alloc();
#else
      end("no memory is left");
#endif
    }
    if (of_->within != nullptr) of_->within->count.increment();
  }
  counted(const counted& other) noexcept : at_(other.at_), of_(other.of_) {
    if (of_ != nullptr) of_->count.increment();
  }
  counted(counted&& other) noexcept : at_(std::exchange(other.at_, nullptr)), of_(std::exchange(other.of_, nullptr)) {}
  counted& operator=(const counted&) = delete;
  /* A call of its own: inline within std::optional, GCC takes the test for a use of what was never
   * made. */
  [[gnu::noinline]] ~counted() {
    if (of_ != nullptr && of_->count.decrement_to_zero()) close(of_);
  }

  /* Null if it was moved from. */
  const void* get() const { return at_; }

 private:
  struct block {
    shared_word<std::size_t> count;
    const void* at;
    closing closes;
    block* within;
  };

  [[gnu::noinline]] static void close(block* of) {
    do {
      block* within = of->within;
      of->closes(within == nullptr ? nullptr : within->at, of->at);
      delete std::exchange(of, within);
    } while (of != nullptr && of->count.decrement_to_zero());
  }

  const void* at_;
  block* of_;
};

/* Runs a part of C++ that Rust calls. */
template <class Part>
status called_back(Part&& part) noexcept {
#ifdef __cpp_exceptions
  try {
    part();
  } catch (...) {
    callback_exception = std::current_exception();
    return thrown;
  }
#else
  part();
#endif
  return done;
}

/* The destructor of a class, which the library finds by the description of the class: registered
 * while the program, or the shared object that has it, is loaded. */
template <class T>
inline constexpr bool has_destructor = !std::is_trivially_destructible_v<T> && !is_std_container<T>;

template <class T, class Library>
class destructor {
 public:
  destructor() { tell(1); }
  ~destructor() { tell(0); }
  destructor(const destructor&) = delete;
  destructor& operator=(const destructor&) = delete;

 private:
  static status run(void* object) noexcept {
    return called_back([object] { static_cast<T*>(object)->~T(); });
  }
  static void tell(std::uint32_t is_there) {
    using function = status(raw_text, raw_text, status (*)(void*) noexcept, std::uint32_t);
    table<Library>::template at<function>(2)(raw(named<T>::name()), raw(description_of<T>()), &run, is_there);
  }
};

template <class T, class Library>
inline const destructor<T, Library> registered_destructor{};

template <class T, class Library>
void require_destructor() {
  if constexpr (has_destructor<T>) static_cast<void>(&registered_destructor<T, Library>);
}

/* A value as it crosses: a number, or a struct that both languages declare. `code` is its number in
 * signatures. */
template <class T>
struct wire {
  static_assert(std::is_arithmetic_v<T> || (lists_fields<T> && std::is_trivially_copyable_v<T>));
  static constexpr std::uint32_t code = std::is_floating_point_v<T> ? 2 + sizeof(T) / 4
                                        : std::is_arithmetic_v<T>   ? (std::is_signed_v<T> ? 9 : 5) + std::countr_zero(sizeof(T))
                                                                    : 16;
  using raw_type = T;
  static raw_type to(T value) { return value; }
  template <class Library>
  static T from(raw_type value) { return value; }
};
template <>
struct wire<bool> {
  static constexpr std::uint32_t code = 2;
  using raw_type = std::uint8_t;
  static raw_type to(bool value) { return value ? 1 : 0; }
  template <class Library>
  static bool from(raw_type value) { return value != 0; }
};
template <>
struct wire<std::string_view> {
  static constexpr std::uint32_t code = 13;
  using raw_type = raw_text;
  static raw_type to(std::string_view value) { return raw(value); }
};
template <>
struct wire<void> {
  static constexpr std::uint32_t code = 1;
  using raw_type = std::uint8_t;
  template <class Library>
  static void from(raw_type) {}
};
template <class T>
struct wire<std::optional<T>> {
  static constexpr std::uint32_t code = 64 + wire<T>::code;
  using raw_type = raw_option<T>;
  template <class Library>
  static std::optional<T> from(raw_type value) { return value.is_some ? std::optional<T>(value.value) : std::nullopt; }
};
template <>
struct wire<std::string> {
  static constexpr std::uint32_t code = 14;
  using raw_type = raw_string;
  template <class Library>
  static std::string from(raw_type value) {
    struct freed {
      raw_string of;
      ~freed() { table<Library>::template at<void(raw_string)>(1)(of); }
    } guard{value};
    return std::string(value.bytes, value.size);
  }
};

/* The bytes of a value as they are kept: its own, or a copy whose padding is zero. */
template <class T, bool HasPadding = lists_fields<T> && !std::has_unique_object_representations_v<T>>
class packed {
 public:
  explicit packed(const T& value) : at_(&value) {}
  const void* bytes() const { return at_; }

 private:
  const T* at_;
};
template <class T>
class packed<T, true> {
 public:
  explicit packed(const T& value) { copy_field(bytes_, value); }
  const void* bytes() const { return bytes_; }

 private:
  alignas(T) std::byte bytes_[sizeof(T)] = {};
};

/* A value in the pool: an object, or the characters of a text. */
template <class T>
struct stored {
  using key = T; /* the type that std::hash and its kin get */
  using view = const T&;
  static view of(raw_text at) { return *reinterpret_cast<const T*>(at.bytes); }
};
template <>
struct stored<std::string> {
  using key = std::string_view;
  using view = std::string_view;
  static view of(raw_text at) { return {at.bytes, at.size}; }
};

/* Values of classes that only C++ knows, and functions over them. */
template <class T>
struct gen : packed<T> {
  using argument = const T&;
  gen(const T& value) : packed<T>(value) {}
};
template <>
struct gen<std::string> {
  using argument = std::string_view;
  gen(std::string_view value) : text(value) {}
  std::string_view text;
};
template <class T>
struct copied {};
template <class T>
struct hash {};
template <class T>
struct equal {};
template <class T>
struct order {};
/* Places in the pool; null: none. */
template <class T>
struct lent {
  raw_text at{nullptr, 0};
  explicit operator bool() const { return at.bytes != nullptr; }
  typename stored<T>::view get() const { return stored<T>::of(at); }
  typename stored<T>::view key() const { return get(); }
  bool operator==(const lent& other) const { return at.bytes == other.at.bytes; }
};
template <class K, class V>
struct lent_pair {
  raw_text first{nullptr, 0}, second{nullptr, 0};
  explicit operator bool() const { return first.bytes != nullptr; }
  std::pair<typename stored<K>::view, typename stored<V>::view> get() const { return {key(), value()}; }
  typename stored<K>::view key() const { return stored<K>::of(first); }
  typename stored<V>::view value() const { return stored<V>::of(second); }
  bool operator==(const lent_pair& other) const { return first.bytes == other.first.bytes; }
};
template <class K, class V>
struct visit {
  raw_visit of;
  template <class F>
  static visit over(F& function) {
    return {{&function, [](const void* context, raw_text key, raw_text value) noexcept {
               return called_back([&] { (*static_cast<F*>(const_cast<void*>(context)))(stored<K>::of(key), stored<V>::of(value)); });
             }}};
  }
};
template <class T>
struct wire<gen<T>> {
  static constexpr std::uint32_t code = 17;
  using raw_type = raw_text;
  static raw_type to(const gen<T>& value) {
    if constexpr (std::is_same_v<T, std::string>) {
      return raw(value.text);
    } else {
      return {static_cast<const char*>(value.bytes()), sizeof(T)};
    }
  }
};
template <class T>
struct wire<hash<T>> {
  static constexpr std::uint32_t code = 19;
  using raw_type = raw_hash;
  static raw_type to(hash<T>) {
    return {nullptr, [](const void*, raw_text value, std::uint64_t* out) noexcept {
              return called_back([&] { *out = std::hash<typename stored<T>::key>{}(stored<T>::of(value)); });
            }};
  }
};
template <class T>
struct wire<equal<T>> {
  static constexpr std::uint32_t code = 20;
  using raw_type = raw_equal;
  static raw_type to(equal<T>) {
    return {nullptr, [](const void*, raw_text one, raw_text other, std::uint8_t* out) noexcept {
              return called_back([&] { *out = std::equal_to<typename stored<T>::key>{}(stored<T>::of(one), stored<T>::of(other)) ? 1 : 0; });
            }};
  }
};
template <class T>
struct wire<order<T>> {
  static constexpr std::uint32_t code = 21;
  using raw_type = raw_order;
  static raw_type to(order<T>) {
    return {nullptr, [](const void*, raw_text one, raw_text other, std::int8_t* out) noexcept {
              return called_back([&] {
                std::less<typename stored<T>::key> less;
                *out = less(stored<T>::of(one), stored<T>::of(other)) ? -1 : less(stored<T>::of(other), stored<T>::of(one)) ? 1 : 0;
              });
            }};
  }
};
template <class T>
struct wire<lent<T>> {
  static constexpr std::uint32_t code = 22;
  using raw_type = raw_text;
  template <class Library>
  static lent<T> from(raw_type value) { return {value}; }
};
template <class K, class V>
struct wire<lent_pair<K, V>> {
  static constexpr std::uint32_t code = 23;
  using raw_type = lent_pair<K, V>;
  template <class Library>
  static lent_pair<K, V> from(raw_type value) { return value; }
};
template <class K, class V>
struct wire<visit<K, V>> {
  static constexpr std::uint32_t code = 24;
  using raw_type = raw_visit;
  static raw_type to(visit<K, V> value) { return value.of; }
};
template <class T>
struct wire<copied<T>> {
  static constexpr std::uint32_t code = 18;
  using raw_type = raw_string;
  template <class Library>
  static T from(raw_type value) {
    if constexpr (std::is_same_v<T, std::string>) {
      return wire<std::string>::from<Library>(value);
    } else {
      return from_bytes<Library>(value);
    }
  }

 private:
  template <class Library>
  static T from_bytes(raw_type value) {
    if (value.size != sizeof(T)) end("a value of another class than its root's"); /* the root was checked when it was opened */
    std::array<std::byte, sizeof(T)> bytes;
    std::memcpy(bytes.data(), value.bytes, sizeof(T));
    table<Library>::template at<void(raw_string)>(1)(value);
    return std::bit_cast<T>(bytes);
  }
};
template <class T>
struct wire<std::optional<copied<T>>> {
  static constexpr std::uint32_t code = 64 + wire<copied<T>>::code;
  using raw_type = raw_string;
  template <class Library>
  static std::optional<T> from(raw_type value) {
    if (value.bytes == nullptr) return std::nullopt;
    return wire<copied<T>>::template from<Library>(value);
  }
};

/* The number of a method, as lib.h has it for each function of the table. */
template <class R, class... A>
constexpr std::uint32_t signature(bool changes) {
  std::uint32_t all = (changes ? 2u : 1u) * 131 + wire<R>::code;
  ((all = all * 131 + wire<A>::code), ...);
  return all;
}

/* The result of a method in C++. */
template <class R>
struct result {
  using type = R;
};
template <class T>
struct result<copied<T>> {
  using type = T;
};
template <class T>
struct result<std::optional<copied<T>>> {
  using type = std::optional<T>;
};

}  // namespace bridge
}  // namespace everbyte

#endif

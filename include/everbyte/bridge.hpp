/* Persistent types written in Rust, used from C++20: what the headers of `everbyte bridge build`
 * stand on. A program includes those, not this file.
 *
 * Ownership: a pool object and the roots opened by it keep the pool open; it is closed when the
 *   last of them ends. A root is a view: copies are the same root, and none of them frees it.
 * Errors: every failure is an exception of class `error`; a panic in Rust is a `panic_error`. A
 *   program compiled without exceptions ends with the message instead.
 * Transactions: `POOL::txn(lambda)` commits what the lambda did when it returns, and rolls back
 *   when it throws; the exception goes on. An inner transaction is a part of the outer one. An
 *   exception of a part dooms the outermost, even if it was caught.
 * Threads: a transaction belongs to its thread. An exported type says whether threads may share it.
 * Not offered: references and pointers into a pool, and changes outside of a transaction. Neither
 *   compiles. docs/semantics/cpp.md lists what is refused, and when.
 */
#ifndef EVERBYTE_BRIDGE_HPP
#define EVERBYTE_BRIDGE_HPP

#if __cplusplus < 202002L
#error "everbyte/bridge.hpp needs C++20: compile with -std=c++20"
#endif

#include <everbyte/fields.hpp>

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
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

/* How a pool is opened. An empty text leaves the choice to the environment (EVERBYTE_BACKEND,
 * EVERBYTE_DURABILITY), then to the store. */
struct pool_options {
  bool create = false;             /* make the store and the pool where they are absent */
  std::string_view name = {};      /* the pool's name in its store; by default that of its type */
  std::string_view backend = {};   /* `auto`, `pmem`, `file`, `shm` */
  std::string_view durability = {}; /* `always`, `interval:MILLISECONDS`, `process` */
  std::uint64_t size_max = 0;      /* declared maximum of a store that is made; 0: 1 TiB */
  std::uint64_t span = 0;          /* addresses of a pool that is made; 0: the store's choice */
};

/* A running transaction of one pool type; `Brand` is the type of its lambda. It exists as that
 * lambda's parameter alone. */
template <class Pool, class Brand>
class transaction;

/* An object of a C++ class that a transaction may change, for as long as it runs. */
template <class T, class Pool, class Brand>
class changing;

/* A root of a C++ class. */
template <class T, class Pool>
class object;

namespace bridge {

using entry = void (*)();
using status = std::uint32_t;
inline constexpr status done = 0, failed = 1, thrown = 2;

/* The types of the boundary: docs/manual/cpp.md says nothing of them, and they change. */
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
};
struct raw_hash {
  const void* context;
  status (*call)(const void*, const void*, std::uint64_t*) noexcept;
};
struct raw_equal {
  const void* context;
  status (*call)(const void*, const void*, const void*, std::uint8_t*) noexcept;
};
struct raw_visit {
  const void* context;
  status (*call)(const void*, const void*, const void*) noexcept;
};
template <class R>
struct raw_option {
  std::uint8_t is_some;
  R value;
};

inline raw_text raw(std::string_view text) { return {text.data(), text.size()}; }

[[noreturn]] inline void end(std::string_view message) {
  std::fprintf(stderr, "everbyte: %.*s\n", static_cast<int>(message.size()), message.data());
  std::abort();
}

/* The table of a library's functions. `Library` is made by `everbyte bridge build`. */
template <class Library>
struct table {
  static const entry* entries() {
    static std::atomic<const entry*> known{nullptr};
    const entry* found = known.load(std::memory_order_acquire);
    if (found == nullptr) [[unlikely]] {
      found = attached();
      known.store(found, std::memory_order_release);
    }
    return found;
  }

  template <class Function>
  static Function* at(std::size_t index) {
    return reinterpret_cast<Function*>(entries()[index]);
  }

 private:
  /* A header of another library ends the program, before it has opened anything. */
  static const entry* attached() {
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
[[noreturn]] void raise() {
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

#ifdef __cpp_exceptions
/* The exception of a callback, on its way through Rust. */
inline thread_local std::exception_ptr callback_exception{};
#endif

template <class Library>
void require(status of) {
  if (of == done) [[likely]] return;
#ifdef __cpp_exceptions
  if (of == thrown) std::rethrow_exception(std::exchange(callback_exception, nullptr));
#endif
  raise<Library>();
}

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

/* A value as it crosses. */
template <class T>
struct wire {
  static_assert(std::is_arithmetic_v<T>);
  using raw_type = T;
  static raw_type to(T value) { return value; }
  template <class Library>
  static T from(raw_type value) { return value; }
};
template <>
struct wire<bool> {
  using raw_type = std::uint8_t;
  static raw_type to(bool value) { return value ? 1 : 0; }
  template <class Library>
  static bool from(raw_type value) { return value != 0; }
};
template <>
struct wire<std::string_view> {
  using raw_type = raw_text;
  static raw_type to(std::string_view value) { return raw(value); }
};
template <>
struct wire<void> {
  using raw_type = std::uint8_t;
  template <class Library>
  static void from(raw_type) {}
};
template <class T>
struct wire<std::optional<T>> {
  using raw_type = raw_option<T>;
  template <class Library>
  static std::optional<T> from(raw_type value) { return value.is_some ? std::optional<T>(value.value) : std::nullopt; }
};
template <>
struct wire<std::string> {
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

/* Values of classes that only C++ knows, and functions over them. */
template <class T>
struct gen {
  gen(const T& value) : at(&value) {}
  const T* at;
};
template <class T>
struct copied {};
template <class T>
struct hash {};
template <class T>
struct equal {};
template <class K, class V>
struct visit {
  raw_visit of;
  template <class F>
  static visit over(F& function) {
    return {{&function, [](const void* context, const void* key, const void* value) noexcept {
               return called_back([&] { (*static_cast<F*>(const_cast<void*>(context)))(*static_cast<const K*>(key), *static_cast<const V*>(value)); });
             }}};
  }
};
template <class T>
struct wire<gen<T>> {
  using raw_type = raw_text;
  static raw_type to(gen<T> value) { return {reinterpret_cast<const char*>(value.at), sizeof(T)}; }
};
template <class T>
struct wire<hash<T>> {
  using raw_type = raw_hash;
  static raw_type to(hash<T>) {
    return {nullptr, [](const void*, const void* value, std::uint64_t* out) noexcept {
              return called_back([&] { *out = std::hash<T>{}(*static_cast<const T*>(value)); });
            }};
  }
};
template <class T>
struct wire<equal<T>> {
  using raw_type = raw_equal;
  static raw_type to(equal<T>) {
    return {nullptr, [](const void*, const void* one, const void* other, std::uint8_t* out) noexcept {
              return called_back([&] { *out = std::equal_to<T>{}(*static_cast<const T*>(one), *static_cast<const T*>(other)) ? 1 : 0; });
            }};
  }
};
template <class K, class V>
struct wire<visit<K, V>> {
  using raw_type = raw_visit;
  static raw_type to(visit<K, V> value) { return value.of; }
};
template <class T>
struct wire<copied<T>> {
  using raw_type = raw_string;
  template <class Library>
  static T from(raw_type value) {
    if (value.size != sizeof(T)) end("a value of another class than its root's"); /* the root was checked when it was opened */
    std::array<std::byte, sizeof(T)> bytes;
    std::memcpy(bytes.data(), value.bytes, sizeof(T));
    table<Library>::template at<void(raw_string)>(1)(value);
    return std::bit_cast<T>(bytes);
  }
};
template <class T>
struct wire<std::optional<copied<T>>> {
  using raw_type = raw_string;
  template <class Library>
  static std::optional<T> from(raw_type value) {
    if (value.bytes == nullptr) return std::nullopt;
    return wire<copied<T>>::template from<Library>(value);
  }
};

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

/* Whether a type mentions a transaction or what ends with it. */
template <class T>
struct mentions : std::false_type {};
template <class Pool, class Brand>
struct mentions<transaction<Pool, Brand>> : std::true_type {};
template <class T, class Pool, class Brand>
struct mentions<changing<T, Pool, Brand>> : std::true_type {};
template <class T, class Pool>
struct mentions<pointer_t<T, Pool>> : std::true_type {};
template <class T>
struct mentions<const T> : mentions<T> {};
template <class T>
struct mentions<T*> : mentions<T> {};
template <class T>
struct mentions<T&> : mentions<T> {};
template <template <class...> class Of, class... T>
struct mentions<Of<T...>> : std::bool_constant<(mentions<T>::value || ...)> {};

template <class R>
concept may_leave = !std::is_reference_v<R> && !std::is_pointer_v<R> && !mentions<R>::value;

template <class T, class Pool>
raw_object raw_class() {
  static_assert(psafe<T, Pool>,
                "this class cannot live in the pool: list its fields with EVERBYTE_FIELDS; each is a number, an enumeration, "
                "a pointer_t of the same pool, an array of these, or a class that lists its fields");
  static const std::string name = named<T>::name();
  return {raw(name), raw(description_of<T>()), nullptr, sizeof(T)};
}

template <class T, class Pool>
raw_object raw_of(const T& value) {
  raw_object object = raw_class<T, Pool>();
  object.bytes = &value;
  return object;
}

/* Runs the lambda of a transaction through a function that C calls. */
template <class Body, class Transaction, class R>
struct frame {
  Body& body;
  std::optional<R> result{};
#ifdef __cpp_exceptions
  std::exception_ptr exception{};
#endif

  static status run(void* self, std::uint64_t number) noexcept {
    auto& my = *static_cast<frame*>(self);
#ifdef __cpp_exceptions
    try {
      Transaction in(number);
      my.result.emplace(my.body(in));
    } catch (...) {
      my.exception = std::current_exception();
      return thrown;
    }
#else
    Transaction in(number);
    my.result.emplace(my.body(in));
#endif
    return done;
  }
};

template <class Body, class Transaction>
struct frame<Body, Transaction, void> {
  Body& body;
#ifdef __cpp_exceptions
  std::exception_ptr exception{};
#endif

  static status run(void* self, std::uint64_t number) noexcept {
    auto& my = *static_cast<frame*>(self);
#ifdef __cpp_exceptions
    try {
      Transaction in(number);
      my.body(in);
    } catch (...) {
      my.exception = std::current_exception();
      return thrown;
    }
#else
    Transaction in(number);
    my.body(in);
#endif
    return done;
  }
};

/* The calls of a type whose functions begin at `First`; `Classes` are those that it is over. */
template <class Pool, std::size_t First, class... Classes>
class vessel {
 public:
  vessel() = delete;
  vessel(const vessel&) = default;
  vessel(vessel&&) noexcept = default;
  vessel& operator=(const vessel&) = delete;
  vessel& operator=(vessel&&) = delete;
  static void* operator new(std::size_t) = delete;
  static void* operator new[](std::size_t) = delete;
  static void operator delete(void*) = delete;
  static void operator delete[](void*) = delete;

 protected:
  using library = typename Pool::library;

  explicit vessel(std::shared_ptr<const void> self) : self_(std::move(self)) {}

  static std::array<raw_object, sizeof...(Classes)> classes() { return {raw_class<Classes, Pool>()...}; }

  template <std::size_t Index, class R, class... A>
  typename result<R>::type read(A... arguments) const {
    using raw = typename wire<R>::raw_type;
    using function = status(const void*, typename wire<A>::raw_type..., raw*);
    raw out;
    require<library>(table<library>::template at<function>(First + Index)(self_.get(), wire<A>::to(arguments)..., &out));
    return wire<R>::template from<library>(out);
  }

  template <std::size_t Index, class R, class Brand, class... A>
  typename result<R>::type change(transaction<Pool, Brand>& in, A... arguments) const {
    using raw = typename wire<R>::raw_type;
    using function = status(const void*, std::uint64_t, typename wire<A>::raw_type..., raw*);
    raw out;
    require<library>(table<library>::template at<function>(First + Index)(self_.get(), in.number_, wire<A>::to(arguments)..., &out));
    return wire<R>::template from<library>(out);
  }

 private:
  template <class, class, std::size_t>
  friend class pool;
  std::shared_ptr<const void> self_;
};

/* An open pool of one type. At most one is open under its type. */
template <class Self, class Library, std::size_t First>
class pool {
 public:
  using library = Library;

  /* Opens the pool of the store at `path`; recovers it first if its last program crashed. */
  explicit pool(std::string_view path, const pool_options& options = {}) {
    raw_options given{raw(path), raw(options.name.empty() ? std::string_view(Self::type_name) : options.name), raw(options.backend),
                      raw(options.durability), options.size_max, options.span, options.create ? 1u : 0u, 0};
    const void* opened = nullptr;
    const char* base = nullptr;
    require<Library>(table<Library>::template at<status(const raw_options*, const void**, const char**)>(First)(&given, &opened, &base));
    base_.store(base, std::memory_order_release);
    open_.store(opened, std::memory_order_release);
    handle_ = std::shared_ptr<const void>(opened, [](const void* handle) noexcept {
      open_.store(nullptr, std::memory_order_release);
      table<Library>::template at<status(const void*)>(First + 1)(handle);
    });
  }
  pool(const pool&) = delete;
  pool(pool&&) noexcept = default;
  pool& operator=(const pool&) = delete;
  pool& operator=(pool&&) = delete;

  /* The root of that name; made by the type's constructor if there is none. Fails if the root is
   * of another type, or is open already; and inside of a transaction. */
  template <class Vessel>
  Vessel root(std::string_view name) const {
    const void* at = nullptr;
    using function = status(const void*, raw_text, const raw_object*, std::size_t, const void**);
    auto classes = Vessel::classes();
    require<Library>(table<Library>::template at<function>(Vessel::root_index)(handle_.get(), raw(name), classes.data(), classes.size(), &at));
    return Vessel(std::shared_ptr<const void>(at, [handle = handle_](const void* root) noexcept {
      table<Library>::template at<status(const void*, const void*)>(First + 2)(handle.get(), root);
    }));
  }

  /* The root of that name, of a C++ class; a copy of `first` if there is none. Fails as `root`
   * does, and if the pool was made with another class of that name: the message names the field. */
  template <class T>
  object<T, Self> cpp_root(std::string_view name, const T& first = {}) const {
    raw_object value = raw_of<T, Self>(first);
    const void* at = nullptr;
    require<Library>(
        table<Library>::template at<status(const void*, raw_text, const raw_object*, const void**)>(First + 4)(handle_.get(), raw(name), &value, &at));
    return object<T, Self>(std::shared_ptr<const T>(static_cast<const T*>(at), [handle = handle_](const T* root) noexcept {
      table<Library>::template at<status(const void*, const void*)>(First + 2)(handle.get(), root);
    }));
  }

  /* Runs `body` as one transaction: all changes or none, after any crash; durable on return. The
   * result of `body` is returned. If `body` throws, everything is rolled back, and the exception
   * goes on. */
  template <class Body>
  static auto txn(Body&& body) {
    using in = transaction<Self, std::remove_cvref_t<Body>>;
    using R = decltype(body(std::declval<in&>()));
    static_assert(may_leave<R>, "a reference, a pointer or a transaction does not leave the lambda: return a value");
    frame<std::remove_reference_t<Body>, in, R> run{body};
    status ended = table<Library>::template at<status(void*, status (*)(void*, std::uint64_t) noexcept)>(First + 3)(&run, &run.run);
#ifdef __cpp_exceptions
    if (run.exception) std::rethrow_exception(std::move(run.exception));
#endif
    require<Library>(ended);
    if constexpr (!std::is_void_v<R>) return R(std::move(*run.result));
  }

 private:
  template <class, class>
  friend class everbyte::transaction;
  template <class, class>
  friend class everbyte::pointer_t;
  template <class, class, class>
  friend class everbyte::changing;

  static constexpr std::size_t first_ = First;
  /* The address from which `pointer_t` counts, and the handle, while a pool is open. */
  static inline std::atomic<const char*> base_{nullptr};
  static inline std::atomic<const void*> open_{nullptr};
  std::shared_ptr<const void> handle_;
};

}  // namespace bridge

template <class Pool, class Brand>
class transaction {
 public:
  transaction(const transaction&) = delete;
  transaction& operator=(const transaction&) = delete;
  static void* operator new(std::size_t) = delete;
  static void* operator new[](std::size_t) = delete;

  /* Makes a copy of `value` in the pool, which owns it until `destroy`. */
  template <class T>
  pointer_t<T, Pool> make(const T& value) {
    bridge::raw_object object = bridge::raw_of<T, Pool>(value);
    const void* at = nullptr;
    using function = bridge::status(const void*, std::uint64_t, const bridge::raw_object*, const void**);
    bridge::require<typename Pool::library>(call<function>(5)(Pool::open_.load(std::memory_order_acquire), number_, &object, &at));
    return pointer_t<T, Pool>(static_cast<const T*>(at));
  }

  /* Frees an object that `make` has made, when the transaction commits. */
  template <class T>
  void destroy(pointer_t<T, Pool> object) {
    using function = bridge::status(const void*, std::uint64_t, std::uint64_t);
    bridge::require<typename Pool::library>(call<function>(6)(Pool::open_.load(std::memory_order_acquire), number_, object.offset()));
  }

 private:
  template <class, class, class>
  friend struct bridge::frame;
  template <class, std::size_t, class...>
  friend class bridge::vessel;
  template <class, class, class>
  friend class changing;

  explicit transaction(std::uint64_t number) : number_(number) {}

  template <class Function>
  static Function* call(std::size_t index) {
    return bridge::table<typename Pool::library>::template at<Function>(Pool::first_ + index);
  }

  void log(const void* at, std::size_t size) {
    using function = bridge::status(std::uint64_t, const void*, std::size_t);
    bridge::require<typename Pool::library>(call<function>(7)(number_, at, size));
  }

  std::uint64_t number_;
};

/* An object that the transaction `Brand` may change: its old bytes are in the log. */
template <class T, class Pool, class Brand>
class changing {
 public:
  /* Logs the object. */
  changing(transaction<Pool, Brand>& in, const T& object) : object_(const_cast<T*>(&object)) { in.log(object_, sizeof(T)); }
  static void* operator new(std::size_t) = delete;
  static void* operator new[](std::size_t) = delete;

  T& operator*() const { return *object_; }
  T* operator->() const { return object_; }
  changing& operator=(const T& value) {
    *object_ = value;
    return *this;
  }
  changing(const changing&) = default;
  changing& operator=(const changing&) = delete;

 private:
  T* object_;
};

/* A pointer within a pool: 8 bytes, the same in every run. It reads; `mut` changes. */
template <class T, class Pool>
class pointer_t {
 public:
  pointer_t() = default;
  pointer_t(std::nullptr_t) {}

  const T& operator*() const { return *get(); }
  const T* operator->() const { return get(); }
  explicit operator bool() const { return offset_ != 0; }
  bool operator==(const pointer_t&) const = default;
  /* Bytes from the pool's start; 0: none. */
  std::uint64_t offset() const { return offset_; }

  /* The object, to be changed; all of it is logged. */
  template <class Brand>
  changing<T, Pool, Brand> mut(transaction<Pool, Brand>& in) const {
    return {in, *get()};
  }
  /* A field, to be changed; it alone is logged. */
  template <class Brand, class F, class C>
    requires std::is_same_v<C, T>
  changing<F, Pool, Brand> mut(transaction<Pool, Brand>& in, F C::*field) const {
    return {in, get()->*field};
  }

 private:
  template <class, class>
  friend class transaction;
  template <class, class>
  friend class object;

  explicit pointer_t(const T* at)
      : offset_(static_cast<std::uint64_t>(reinterpret_cast<const char*>(at) - Pool::base_.load(std::memory_order_relaxed))) {}
  const T* get() const { return reinterpret_cast<const T*>(Pool::base_.load(std::memory_order_relaxed) + offset_); }

  std::uint64_t offset_ = 0;
};

/* A root of a C++ class. A view: copies are the same root. */
template <class T, class Pool>
class object {
 public:
  object() = delete;
  object(const object&) = default;
  object& operator=(const object&) = delete;
  static void* operator new(std::size_t) = delete;
  static void* operator new[](std::size_t) = delete;

  const T& operator*() const { return *self_; }
  const T* operator->() const { return self_.get(); }
  /* A pointer to it, to be kept in the pool. */
  pointer_t<T, Pool> pointer() const { return pointer_t<T, Pool>(self_.get()); }
  /* The object, to be changed; all of it is logged. */
  template <class Brand>
  changing<T, Pool, Brand> mut(transaction<Pool, Brand>& in) const {
    return {in, *self_};
  }
  /* A field, to be changed; it alone is logged. */
  template <class Brand, class F, class C>
    requires std::is_same_v<C, T>
  changing<F, Pool, Brand> mut(transaction<Pool, Brand>& in, F C::*field) const {
    return {in, (*self_).*field};
  }

 private:
  template <class, class, std::size_t>
  friend class bridge::pool;

  explicit object(std::shared_ptr<const T> self) : self_(std::move(self)) {}
  std::shared_ptr<const T> self_;
};

}  // namespace everbyte

#endif

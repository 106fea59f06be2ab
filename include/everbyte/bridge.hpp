/* Persistent types written in Rust, used from C++20: what the headers of `everbyte bridge build`
 * stand on. A program includes those, not this file.
 *
 * Ownership: a pool object and the roots opened by it keep the pool open; it is closed when the
 *   last of them ends. A root is a view: copies are the same root, and none of them frees it; a
 *   root that was moved is still there. A pool object that was moved refuses every call.
 * Errors: every failure is an exception of class `error`; a panic in Rust is a `panic_error`. A
 *   program compiled without exceptions ends with the message instead.
 * Transactions: `POOL::txn(lambda)` commits what the lambda did when it returns, and rolls back
 *   when it throws; the exception goes on. An inner transaction is a part of the outer one. An
 *   exception of a part, or of a method that takes the transaction, dooms the outermost, even if it
 *   was caught.
 * Threads: a transaction belongs to its thread. An exported type says whether threads may share it.
 * Not offered: references and pointers into a pool, and changes outside of a transaction. Neither
 *   compiles. docs/semantics/cpp.md lists what is refused, and when.
 */
#ifndef EVERBYTE_BRIDGE_HPP
#define EVERBYTE_BRIDGE_HPP

#if __cplusplus < 202002L
#error "everbyte/bridge.hpp needs C++20: compile with -std=c++20"
#endif

#include <everbyte/bridge_wire.hpp>
#include <everbyte/fields.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <new>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#ifdef __cpp_impl_coroutine
#include <coroutine>
#endif

namespace everbyte {

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
 * lambda's parameter alone; one that is kept, and used after the outermost lambda or by another
 * thread, is refused: `invalid`. */
template <class Pool, class Brand>
class transaction;

/* An object of a C++ class that a transaction may change, for as long as it runs. */
template <class T, class Pool, class Brand>
class changing;

/* A root of a C++ class. */
template <class T, class Pool>
class object;

/* The persistent container in place of one of std: std.hpp. */
template <class Std, class Pool>
struct persistent;
template <class Std, class Pool>
using make_persistent = typename persistent<Std, Pool>::type;

namespace bridge {

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
template <class T, std::size_t N>
struct mentions<std::array<T, N>> : mentions<T> {};
template <template <class...> class Of, class... T>
struct mentions<Of<T...>> : std::bool_constant<(mentions<T>::value || ...)> {};

template <class R>
concept may_leave = !std::is_reference_v<R> && !std::is_pointer_v<R> && !mentions<R>::value;

/* Whether a lambda that returns `R` may be a coroutine, which outlives its transaction. */
#ifdef __cpp_impl_coroutine
template <class R, class... Arguments>
concept is_awaitable = requires { typename std::coroutine_traits<R, Arguments...>::promise_type; };
#else
template <class R, class...>
concept is_awaitable = requires { typename R::promise_type; };
#endif

template <class T, class Pool>
raw_object raw_class() {
  if constexpr (std::is_same_v<T, std::string>) {
    return {raw("std::string"), raw("root std::string\n"), nullptr, 0, 0};
  } else {
    require_psafe<T, Pool>();
    require_destructor<T, typename Pool::library>();
    static const std::string name = named<T>::name();
    return {raw(name), raw(description_of<T>()), nullptr, sizeof(T), has_destructor<T> ? 1u : 0u};
  }
}

template <class T, class Pool>
raw_object raw_of(const packed<T>& value) {
  raw_object object = raw_class<T, Pool>();
  object.bytes = value.bytes();
  return object;
}

/* Runs the lambda of a transaction through a function that C calls. */
template <class Body, class Transaction, class R>
struct frame {
  struct nothing {};
  Body& body;
  std::optional<std::conditional_t<std::is_void_v<R>, nothing, R>> result{};
#ifdef __cpp_exceptions
  std::exception_ptr exception{};
#endif

  static status run(void* self, std::uint64_t number) noexcept {
    auto& my = *static_cast<frame*>(self);
#ifdef __cpp_exceptions
    try {
      my.call(number);
    } catch (...) {
      my.exception = std::current_exception();
      return thrown;
    }
#else
    my.call(number);
#endif
    return done;
  }

 private:
  void call(std::uint64_t number) {
    Transaction& in = Transaction::of(number);
    if constexpr (std::is_void_v<R>) {
      body(in);
    } else {
      result.emplace(body(in));
    }
  }
};

/* The calls of a type whose functions begin at `First`; `Classes` are those that it is over. */
template <class Pool, std::size_t First, class... Classes>
class vessel {
 public:
  vessel() = delete;
  vessel(const vessel&) = default; /* a move copies, too: no vessel is without its root */
  vessel& operator=(const vessel&) = delete;
  vessel& operator=(vessel&&) = delete;
  static void* operator new(std::size_t) = delete;
  static void* operator new[](std::size_t) = delete;
  static void operator delete(void*) = delete;
  static void operator delete[](void*) = delete;

 protected:
  using everbyte_library = typename Pool::library;

  explicit vessel(const counted& self) : everbyte_self_(self) {}

  static std::array<raw_object, sizeof...(Classes)> everbyte_classes() {
    static_assert((!has_destructor<Classes> && ...),
                  "a class with a destructor is no part of a template: keep a pointer_t to an object that `make` has made");
    return {raw_class<Classes, Pool>()...};
  }

  /* An element, to be changed; it alone is logged. */
  template <class T, class Brand>
  static changing<T, Pool, Brand> everbyte_mut(transaction<Pool, Brand>& in, const T& element) {
    return {in, element};
  }

  template <std::size_t Index, class R, class... A>
  typename result<R>::type everbyte_read(A... arguments) const {
    static_assert(everbyte_library::signatures[First + Index] == signature<R, A...>(false), "this header was changed, or is of another build: make the headers anew with `everbyte bridge build`");
    using raw = typename wire<R>::raw_type;
    using function = status(const void*, typename wire<A>::raw_type..., raw*);
    raw out;
    require<everbyte_library>(table<everbyte_library>::template at<function>(First + Index)(everbyte_self_.get(), wire<A>::to(arguments)..., &out));
    return wire<R>::template from<everbyte_library>(out);
  }

  template <std::size_t Index, class R, class Brand, class... A>
  typename result<R>::type everbyte_change(transaction<Pool, Brand>& in, A... arguments) const {
    static_assert(everbyte_library::signatures[First + Index] == signature<R, A...>(true), "this header was changed, or is of another build: make the headers anew with `everbyte bridge build`");
    using raw = typename wire<R>::raw_type;
    using function = status(const void*, std::uint64_t, typename wire<A>::raw_type..., raw*);
    raw out;
    require<everbyte_library>(
        table<everbyte_library>::template at<function>(First + Index)(everbyte_self_.get(), in.number(), wire<A>::to(arguments)..., &out));
    return wire<R>::template from<everbyte_library>(out);
  }

 private:
  template <class, class, std::size_t>
  friend class pool;
  counted everbyte_self_;
};

/* An open pool of one type. At most one is open under its type. */
template <class Self, class Library, std::size_t First>
class pool {
 public:
  using library = Library;
  /* The container in place of one of std, as `make_persistent<std::vector<int>>`; include
   * <everbyte/std.hpp>. */
  template <class Std>
  using make_persistent = everbyte::make_persistent<Std, Self>;

  /* Opens the pool of the store at `path`; recovers it first if its last program crashed. */
  explicit pool(std::string_view path, const pool_options& options = {}) : handle_(open(path, options)) {}
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
    auto classes = Vessel::everbyte_classes();
    require<Library>(
        table<Library>::template at<function>(Vessel::everbyte_root_index)(opened(), raw(name), classes.data(), classes.size(), &at));
    return Vessel(opened_root(at));
  }

  /* The root of that name, of a C++ class; a copy of `first` if there is none. Fails as `root`
   * does, and if the pool was made with another class of that name: the message names the field. */
  template <class T>
  object<T, Self> cpp_root(std::string_view name, const T& first = {}) const {
    static_assert(!has_destructor<T> || refusal_of<T, Self>() != refusal::none, /* that is said below */
                  "a root is never destroyed, so its class has no destructor: let it have a pointer_t to the object");
    packed<T> bytes(first);
    raw_object value = raw_of<T, Self>(bytes);
    const void* at = nullptr;
    require<Library>(
        table<Library>::template at<status(const void*, raw_text, const raw_object*, const void**)>(First + 4)(opened(), raw(name), &value, &at));
    return object<T, Self>(opened_root(at));
  }

  /* Makes every transaction that has returned durable, whatever the durability of the pool, and
   * fails if its media has failed. The end of a pool object does the same, and tells no errors. */
  void sync() const { require<Library>(table<Library>::template at<status(const void*)>(First + 8)(opened())); }

  /* Runs `body` as one transaction: all changes or none, after any crash; durable on return, as far
   * as `pool_options::durability` says. The result of `body` is returned. If `body` throws,
   * everything is rolled back, and the exception goes on. */
  template <class Body>
  static auto txn(Body&& body) {
    using in = transaction<Self, std::remove_cvref_t<Body>>;
    using R = decltype(body(std::declval<in&>()));
    static_assert(may_leave<R>, "a reference, a pointer or a transaction does not leave the lambda: return a value");
    static_assert(!is_awaitable<R, Body, in&>,
                  "the lambda of a transaction is no coroutine: the transaction ends when the coroutine waits for the first time");
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

  static counted open(std::string_view path, const pool_options& options) {
    raw_options given{raw(path), raw(options.name.empty() ? std::string_view(Self::type_name) : options.name), raw(options.backend),
                      raw(options.durability), options.size_max, options.span, options.create ? 1u : 0u, 0};
    const void* opened = nullptr;
    const char* base = nullptr;
    require<Library>(table<Library>::template at<status(const raw_options*, const void**, const char**)>(First)(&given, &opened, &base));
    base_.release(base);
    open_.release(opened);
    return counted(opened, [](const void*, const void* handle) noexcept {
      open_.release(nullptr);
      base_.release(nullptr);
      table<Library>::template at<status(const void*)>(First + 1)(handle);
    });
  }

  const void* opened() const {
    if (handle_.get() == nullptr) [[unlikely]] refuse<Self>("this pool object was moved from: use the one that it was moved to");
    return handle_.get();
  }

  counted opened_root(const void* at) const {
    auto close = [](const void* handle, const void* root) noexcept {
      table<Library>::template at<status(const void*, const void*)>(First + 2)(handle, root);
    };
    return counted(at, close, &handle_);
  }

  /* The address from which `pointer_t` counts, and the handle, while a pool is open. */
  static inline constinit shared_word<const char*> base_{nullptr};
  static inline constinit shared_word<const void*> open_{nullptr};
  counted handle_;
};

}  // namespace bridge

template <class Pool, class Brand>
class transaction {
 public:
  transaction() = delete;
  transaction(const transaction&) = delete;
  transaction& operator=(const transaction&) = delete;
  static void* operator new(std::size_t) = delete;
  static void* operator new[](std::size_t) = delete;

  /* Makes a copy of `value` in the pool, which owns it until `destroy`. */
  template <class T>
  pointer_t<T, Pool> make(const T& value) {
    static_assert(!bridge::has_destructor<T>, "an object with a destructor is built in the pool: make(std::in_place_type<T>, arguments...)");
    return kept(value);
  }

  /* Makes an object in the pool by a constructor of its class, whose destructor runs for it once:
   * when it is destroyed. */
  template <class T, class... Arguments>
  pointer_t<T, Pool> make(std::in_place_type_t<T>, Arguments&&... arguments) {
    alignas(T) std::byte bytes[sizeof(T)]; /* moves to the pool as bytes: nothing is destroyed here */
    return kept(*::new (static_cast<void*>(bytes)) T(std::forward<Arguments>(arguments)...));
  }

  /* Frees an object that `make` has made, when the transaction commits. Its destructor runs when
   * the lambda of the outermost transaction has returned, if it does; its exception rolls back. A
   * program that has another class of that name, without the destructor, is refused. */
  template <class T>
  void destroy(pointer_t<T, Pool> object) {
    using function = bridge::status(const void*, std::uint64_t, std::uint64_t);
    bridge::require<typename Pool::library>(call<function>(6)(Pool::open_.acquire(), number(), object.offset()));
  }

 private:
  template <class, class, class>
  friend struct bridge::frame;
  template <class, std::size_t, class...>
  friend class bridge::vessel;
  template <class, class, class>
  friend class changing;

  /* The number of a transaction is its address: no object is there and no byte of it is read. No
   * other one in the process has it or had it, so the library tells one that was kept from that
   * which runs, even if both have been parameters at one place of the stack. */
  static transaction& of(std::uint64_t number) { return *reinterpret_cast<transaction*>(number); }
  std::uint64_t number() const { return reinterpret_cast<std::uint64_t>(this); }

  template <class T>
  pointer_t<T, Pool> kept(const T& value) {
    bridge::packed<T> bytes(value);
    bridge::raw_object object = bridge::raw_of<T, Pool>(bytes);
    const void* at = nullptr;
    using function = bridge::status(const void*, std::uint64_t, const bridge::raw_object*, const void**);
    bridge::require<typename Pool::library>(call<function>(5)(Pool::open_.acquire(), number(), &object, &at));
    return pointer_t<T, Pool>(static_cast<const T*>(at));
  }

  template <class Function>
  static Function* call(std::size_t index) {
    return bridge::table<typename Pool::library>::template at<Function>(Pool::first_ + index);
  }

  void log(const void* at, std::size_t size) {
    using function = bridge::status(std::uint64_t, const void*, std::size_t);
    bridge::require<typename Pool::library>(call<function>(7)(number(), at, size));
  }
};

/* An object that the transaction `Brand` may change: its old bytes are in the log. */
template <class T, class Pool, class Brand>
class changing {
 public:
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
  template <class, class>
  friend class pointer_t;
  template <class, class>
  friend class object;
  template <class, std::size_t, class...>
  friend class bridge::vessel;

  /* Logs the object, which lies in the pool. */
  changing(transaction<Pool, Brand>& in, const T& object) : object_(const_cast<T*>(&object)) { in.log(object_, sizeof(T)); }

  T* object_;
};

/* A pointer within a pool: 8 bytes, the same in every run. It reads; `mut` changes. Reading through
 * one that is null, or while no pool of its type is open, throws. */
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
      : offset_(static_cast<std::uint64_t>(reinterpret_cast<const char*>(at) - Pool::base_.relaxed())) {}
  const T* get() const {
    const char* base = Pool::base_.relaxed();
    if (offset_ == 0 || base == nullptr) [[unlikely]] bridge::refuse<Pool>("a pointer_t is null, or its pool is closed");
    return reinterpret_cast<const T*>(base + offset_);
  }

  std::uint64_t offset_ = 0;
};

namespace bridge {
template <class U>
struct container_of_std {
  static_assert(std::is_void_v<U> && !std::is_void_v<U>,
                "a container of std keeps plain pointers, whatever allocator it has: use POOL::make_persistent of it, from "
                "<everbyte/std.hpp>");
};
}  // namespace bridge

/* The allocator of a pool, for templates that keep its pointers and nothing else: `pointer` grants
 * the right to change an object, which is logged first, by `mut` alone; `make` and `destroy` take
 * the transaction. Inside of a template, `of` is the allocator of another class. An alias of each
 * instance lists its fields. */
template <class T, class Pool>
class allocator {
 public:
  using value_type = T;
  using pointer = pointer_t<T, Pool>;
  template <class U>
  using of = allocator<U, Pool>;

  template <class Brand, class... Arguments>
  static pointer make(transaction<Pool, Brand>& in, Arguments&&... arguments) {
    if constexpr (bridge::has_destructor<T>) {
      return in.make(std::in_place_type<T>, std::forward<Arguments>(arguments)...);
    } else {
      return in.make(T{std::forward<Arguments>(arguments)...});
    }
  }
  template <class Brand>
  static void destroy(transaction<Pool, Brand>& in, pointer object) {
    in.destroy(object);
  }

  /* Containers of std ask for these; libc++'s vector for the second alone. */
  template <class U>
  struct rebind : bridge::container_of_std<U> {
    using other = allocator<U, Pool>;
  };
  template <class U = T>
  static auto allocate(std::size_t) {
    return bridge::container_of_std<U>(), pointer();
  }
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
  static void operator delete(void*) = delete;
  static void operator delete[](void*) = delete;

  const T& operator*() const { return *operator->(); }
  const T* operator->() const { return static_cast<const T*>(self_.get()); }
  /* A pointer to it, to be kept in the pool. */
  pointer_t<T, Pool> pointer() const { return pointer_t<T, Pool>(operator->()); }
  /* The object, to be changed; all of it is logged. */
  template <class Brand>
  changing<T, Pool, Brand> mut(transaction<Pool, Brand>& in) const {
    return {in, **this};
  }
  /* A field, to be changed; it alone is logged. */
  template <class Brand, class F, class C>
    requires std::is_same_v<C, T>
  changing<F, Pool, Brand> mut(transaction<Pool, Brand>& in, F C::*field) const {
    return {in, (**this).*field};
  }

 private:
  template <class, class, std::size_t>
  friend class bridge::pool;

  explicit object(const bridge::counted& self) : self_(self) {}
  bridge::counted self_;
};

}  // namespace everbyte

#endif

#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#pragma GCC visibility push(default)

namespace mc2 {

/// What kind of expected failure occurred. Values are served and stored: never renumber or reuse one.
enum class ErrorCode : std::uint8_t {
  InvalidSpec = 1,   ///< a size, type or option outside its legal values
  UnknownName = 2,   ///< a kind, type, backend, strategy or format that is in no registry
  Infeasible = 3,    ///< the request is legal but no plan satisfies it
  OutOfRange = 4,    ///< a size beyond those a cost model was fitted for, or an index past the last
  Stale = 5,         ///< a measurement or plan belongs to another machine, driver or library version
  NotFound = 6,      ///< nothing is kept under that key, or nobody has a plan
  Malformed = 7,     ///< a document or log that cannot be parsed or violates its schema
  CannotFit = 8,     ///< samples that no cost curve can be fitted to
  Unsupported = 9,   ///< this build or this machine cannot do it
  Corrupt = 10,      ///< stored content that fails its checksum or the database's own check
  NewerVersion = 11, ///< written by a newer mc2
  ReadOnly = 12,     ///< a write to something that is open read-only
  Cancelled = 13,    ///< the user interrupted the work
  Mismatch = 14,     ///< a wrong result of a run, or documents or processes that disagree
  Unreadable = 15,   ///< stored content that is there but may not be read
};

/// Stable lower-case name of a code, e.g. "invalid_spec". Used in JSON and logs.
[[nodiscard]] std::string_view to_string(ErrorCode code) noexcept;
/// The code of that name, if there is one.
[[nodiscard]] std::optional<ErrorCode> parse_error_code(std::string_view name) noexcept;

/// An expected "no": what was wrong, in which field, and what would be right.
struct Error {
  ErrorCode code = ErrorCode::InvalidSpec;
  std::string field;   ///< the offending field, option or file, e.g. "m" or "profile.json:12"; may be empty
  std::string message; ///< one line for a person: what is wrong and which values are legal

  /// "field: message", or the message alone when there is no field.
  [[nodiscard]] std::string text() const;
};

/// A broken invariant inside mc2 itself: prints where and why, then aborts, in release builds too.
[[noreturn]] void check_failed(const char* condition, const char* file, int line, const char* message);

/// A value or the Error that prevented it.
/// Errors: value() on an error, or error() on a value, is a programming mistake and aborts.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}     // NOLINT: implicit by design
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {} // NOLINT: implicit by design

  [[nodiscard]] bool ok() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return ok(); }

  [[nodiscard]] T& value() & { return require_value(), std::get<0>(state_); }
  [[nodiscard]] const T& value() const& { return require_value(), std::get<0>(state_); }
  /// By value, so that `for (auto& x : f().value())` keeps what it iterates over alive.
  [[nodiscard]] T value() && { return require_value(), std::get<0>(std::move(state_)); }
  [[nodiscard]] const Error& error() const& {
    if (ok()) check_failed("!ok()", __FILE__, __LINE__, "error() called on a Result that holds a value");
    return std::get<1>(state_);
  }

 private:
  void require_value() const {
    if (!ok()) check_failed("ok()", __FILE__, __LINE__, std::get<1>(state_).message.c_str());
  }
  std::variant<T, Error> state_;
};

/// Success without a value, or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {} // NOLINT: implicit by design

  [[nodiscard]] bool ok() const noexcept { return !error_.has_value(); }
  explicit operator bool() const noexcept { return ok(); }
  [[nodiscard]] const Error& error() const& {
    if (ok()) check_failed("!ok()", __FILE__, __LINE__, "error() called on a Result that succeeded");
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

/// A library, device or file call failed. Thrown at the call, never for bad user input.
class SystemError : public std::runtime_error {
 public:
  /// @param call         the call that failed, e.g. "dnnl::matmul::execute"
  /// @param native_code  that library's own code (errno, dnnl_status_t, SQLite result code, ...)
  /// @param detail       the library's message, with the rank if there is one
  SystemError(std::string call, int native_code, const std::string& detail)
      : std::runtime_error(call + " failed (" + std::to_string(native_code) + "): " + detail),
        call_(std::move(call)),
        native_code_(native_code) {}

  [[nodiscard]] const std::string& call() const noexcept { return call_; }
  [[nodiscard]] int native_code() const noexcept { return native_code_; }

 private:
  std::string call_;
  int native_code_;
};

/// The storage under a store failed: the disk is full, or another process does not release a lock.
class StorageError : public SystemError {
 public:
  using SystemError::SystemError;
};

} // namespace mc2

#pragma GCC visibility pop

/// Aborts, in release builds too, when an invariant of mc2 itself is broken. User input must never make one fail.
#define MC2_CHECK(condition, message) \
  ((condition) ? void(0) : ::mc2::check_failed(#condition, __FILE__, __LINE__, message))

/// Declares a variable with the value of a Result, or assigns the value to a variable. If the Result is an error, the
/// enclosing function returns that error; it must return a Result of any type or an Error.
///   MC2_ASSIGN(const auto plan, finder.find(op, fingerprint));
///   MC2_ASSIGN(options.link, parse_link(text));
/// The expression is evaluated once and its value is moved out. The macro expands to several statements, so an `if`
/// before it needs braces. The text before the first comma is the declaration, so a declaration has no comma.
#define MC2_ASSIGN(declaration, ...) MC2_ASSIGN_FROM(MC2_NAME_OF_LINE(__LINE__), declaration, __VA_ARGS__)

/// If a Result is an error, the enclosing function returns that error; a value is dropped.
///   MC2_TRY(op.validate());
/// The expression is evaluated once. This is one statement.
#define MC2_TRY(...)                                                                  \
  do {                                                                                \
    if (const auto& mc2_result = __VA_ARGS__; !mc2_result) return mc2_result.error(); \
  } while (false)

#define MC2_ASSIGN_FROM(result, declaration, ...) \
  auto result = __VA_ARGS__;                      \
  if (!result) return result.error();             \
  declaration = std::move(result).value()
#define MC2_NAME_OF_LINE(line) MC2_NAME_OF_LINE_NUMBER(line)
#define MC2_NAME_OF_LINE_NUMBER(line) mc2_result_of_line_##line

#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "json_parse.hpp"
#include "mc2/planner/error.hpp"

namespace mc2::store {

/// The first error in a document. Later errors are dropped, since they may follow from the first.
struct ReadStatus {
  std::optional<Error> error;
};

/// One value of a document and its place there. A read that fails records its Error in the status and returns a zero
/// value, so that callers can read all fields in a row without checks. The document and the parent nodes must outlive
/// the node.
class Node {
 public:
  Node(const Json& root, ReadStatus& status) : value_(&root), status_(&status) {}

  [[nodiscard]] const Json& json() const noexcept { return *value_; }
  [[nodiscard]] bool is_ok() const noexcept { return !status_->error.has_value(); }
  [[nodiscard]] std::string path() const;

  [[nodiscard]] double number() const;
  [[nodiscard]] std::int64_t integer(std::int64_t low = std::numeric_limits<std::int64_t>::min(),
                                     std::int64_t high = std::numeric_limits<std::int64_t>::max()) const;
  [[nodiscard]] bool boolean() const;
  /// A text. Fails for control characters, which a terminal would obey.
  [[nodiscard]] std::string text() const;
  /// A text that is not empty.
  [[nodiscard]] std::string name() const;

  /// An enumerator, read by the planner's own parser.
  template <typename T>
  [[nodiscard]] T name(Result<T> (*parse)(std::string_view)) const {
    const std::string spelled = text();
    if (!is_ok()) return T{};
    const auto parsed = parse(spelled);
    if (parsed) return parsed.value();
    fail(parsed.error().code, parsed.error().message);
    return T{};
  }

  /// All elements of an array, each read by `read(Node)`. Stops at the first failure.
  template <typename Read>
  [[nodiscard]] auto list(Read read) const {
    std::vector<decltype(read(*this))> result;
    if (!require(value_->is_array(), "an array")) return result;
    result.reserve(value_->size());
    for (std::size_t i = 0; i < value_->size() && is_ok(); ++i) result.push_back(read(element(i)));
    return result;
  }

  /// A node for the same place that records its failures in `status` instead.
  [[nodiscard]] Node apart(ReadStatus& status) const;
  /// A node for the value that this object has under `key`. Key and value must outlive the node.
  [[nodiscard]] Node member(std::string_view key, const Json& value) const;

  /// Records an Error at this place.
  void fail(ErrorCode code, std::string message) const;
  /// Records the Error of a validation, if any. Its field is put behind the path of this node.
  void check(const Result<void>& verdict) const;
  /// Records "expected `what`, found ..." unless the condition holds.
  bool require(bool condition, std::string_view what) const;

 private:
  [[nodiscard]] Node element(std::size_t index) const;

  const Json* value_;
  ReadStatus* status_;
  const Node* parent_ = nullptr;
  std::string_view key_;  ///< if the parent is an object
  std::size_t index_ = 0; ///< if the parent is an array
};

/// An object with known keys. Required keys must be there, optional ones may. Any other key is an Error that names it.
class Fields {
 public:
  using Keys = std::span<const std::string_view>;
  Fields(const Node& node, Keys required, Keys optional = {});
  Fields(const Node& node, std::initializer_list<std::string_view> required,
         std::initializer_list<std::string_view> optional = {})
      : Fields(node, Keys(required.begin(), required.size()), Keys(optional.begin(), optional.size())) {}

  /// The value under a key. If the key is missing, a null, whose reads fail; the constructor has recorded that already.
  [[nodiscard]] Node operator[](std::string_view key) const;
  [[nodiscard]] bool has(std::string_view key) const;

 private:
  void refuse_unknown(Keys required, Keys optional) const;
  Node node_;
};

} // namespace mc2::store

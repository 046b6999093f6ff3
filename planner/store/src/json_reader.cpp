#include "json_reader.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "mc2/planner/text.hpp"

namespace mc2::store {
namespace {

const Json kNull;

std::string joined(const std::string& path, const std::string& field) {
  if (path.empty() || field.empty()) return path + field;
  return path + (field.front() == '[' ? "" : ".") + field;
}

std::string found_text(const Json& value) {
  if (value.is_structured()) return value.is_array() ? "an array" : "an object";
  if (value.is_string()) return "the text " + in_quotes(value.get_ref<const std::string&>());
  return value.dump();
}

/// A whole number, also one that is written as 512.0 or 5e2: JSON has one type of numbers. None for a fraction, for a
/// number above the range of int64, which nlohmann keeps as uint64, and for one whose last digits a double loses.
std::optional<std::int64_t> as_int64(const Json& value) {
  constexpr double kLargestExact = 0x1p53;
  if (value.is_number_float()) {
    const auto real = value.get<double>();
    const bool is_exact = std::abs(real) <= kLargestExact && std::trunc(real) == real;
    return is_exact ? std::optional(static_cast<std::int64_t>(real)) : std::nullopt;
  }
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() && !std::in_range<std::int64_t>(value.get<std::uint64_t>())) return std::nullopt;
  return value.get<std::int64_t>();
}

bool contains(Fields::Keys keys, std::string_view key) { return std::ranges::find(keys, key) != keys.end(); }

} // namespace

std::string Node::path() const {
  if (parent_ == nullptr) return {};
  if (key_.data() == nullptr) return parent_->path() + "[" + std::to_string(index_) + "]";
  return joined(parent_->path(), one_line(key_, 64));
}

Node Node::element(std::size_t index) const {
  Node result((*value_)[index], *status_);
  result.parent_ = this;
  result.index_ = index;
  return result;
}

Node Node::apart(ReadStatus& status) const {
  Node result(*this);
  result.status_ = &status;
  return result;
}

Node Node::member(std::string_view key, const Json& value) const {
  Node result(value, *status_);
  result.parent_ = this;
  result.key_ = key;
  return result;
}

void Node::fail(ErrorCode code, std::string message) const {
  if (is_ok()) status_->error = Error{code, path(), std::move(message)};
}

void Node::check(const Result<void>& verdict) const {
  if (verdict || !is_ok()) return;
  const Error& error = verdict.error();
  status_->error = Error{error.code, joined(path(), error.field), error.message};
}

bool Node::require(bool condition, std::string_view what) const {
  if (!condition && is_ok())
    fail(ErrorCode::Malformed, "expected " + std::string(what) + ", found " + found_text(*value_));
  return condition;
}

double Node::number() const { return require(value_->is_number(), "a number") ? value_->get<double>() : 0; }

std::int64_t Node::integer(std::int64_t low, std::int64_t high) const {
  const auto result = as_int64(*value_);
  if (result && *result >= low && *result <= high) return *result;
  require(false, "a whole number from " + std::to_string(low) + " to " + std::to_string(high));
  return 0;
}

bool Node::boolean() const { return require(value_->is_boolean(), "true or false") && value_->get<bool>(); }

std::string Node::text() const {
  if (!require(value_->is_string(), "a text")) return {};
  auto result = value_->get<std::string>();
  if (has_control(result))
    fail(ErrorCode::Malformed,
         "has control characters where spaces stand in " + in_quotes(result) + "; leave them out");
  return result;
}

std::string Node::name() const {
  std::string result = text();
  if (result.empty()) fail(ErrorCode::InvalidSpec, "is empty; give a name");
  return result;
}

Fields::Fields(const Node& node, Keys required, Keys optional) : node_(node) {
  if (!node.require(node.json().is_object(), "an object")) return;
  refuse_unknown(required, optional);
  for (const std::string_view key : required)
    if (!has(key)) node.fail(ErrorCode::Malformed, "key '" + std::string(key) + "' is missing");
}

Node Fields::operator[](std::string_view key) const {
  if (!node_.json().is_object()) return node_.member(key, kNull);
  const auto found = node_.json().find(key);
  return node_.member(key, found == node_.json().end() ? kNull : *found);
}

bool Fields::has(std::string_view key) const { return node_.json().is_object() && node_.json().contains(key); }

void Fields::refuse_unknown(Keys required, Keys optional) const {
  for (const auto& [key, value] : node_.json().items()) {
    if (contains(required, key) || contains(optional, key)) continue;
    std::vector<std::string_view> legal(required.begin(), required.end());
    legal.insert(legal.end(), optional.begin(), optional.end());
    return node_.fail(ErrorCode::Malformed, "unknown key " + in_quotes(key) + "; legal: " + list_text(legal));
  }
}

} // namespace mc2::store

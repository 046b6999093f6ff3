#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <concepts>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "json_reader.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/op_spec.hpp"

/// Each type is described once: kFields<T> lists the keys of its JSON object. The list is used to write a value, to
/// read it and to refuse other keys. A list must name the operator before any blocks, since it determines the cut axis.
namespace mc2::store {

using planner::CutAxis;

struct NotDescribed {};
/// A tuple of what document(), field() and checked() return.
template <typename T>
inline constexpr NotDescribed kFields;
template <typename T>
concept Described = !std::is_same_v<std::remove_cv_t<decltype(kFields<T>)>, NotDescribed>;

/// The form of a value under its key. Other forms are types with `write(value)` and `read(node, value)`, and with
/// `is_written(value)` if their key may be absent.
struct AsItIs {};
struct Name {}; ///< a text that is not empty
struct WholeNumber {
  std::int64_t low = std::numeric_limits<std::int64_t>::min();
  std::int64_t high = std::numeric_limits<std::int64_t>::max();
};
constexpr WholeNumber at_least(std::int64_t low) { return {.low = low}; }
template <typename Enum>
using Parser = Result<Enum> (*)(std::string_view);

enum class Presence : std::uint8_t {
  Always = 1, ///< required and always written, except for a std::optional without a value
  IfSet = 2,  ///< written if the value differs from that of a new object
  Given = 3,  ///< always written, but may be absent when read; the value then stays as it was
};

/// Placeholder in a list for "block_rows" or "block_columns"; the cut axis decides.
inline constexpr std::string_view kBlockKey = "<block lengths>";
/// @returns "block_rows" or "block_columns"
[[nodiscard]] std::string_view block_key(CutAxis axis) noexcept;
/// Records Stale if an object has "block_rows" although its operator is cut by columns: an older mc2 wrote it.
void refuse_rows_for_columns(const Node& node, CutAxis axis);

template <typename Access, typename Form>
struct DocumentField {
  std::string_view key;
  Access access; ///< std::invoke(access, object) is the value
  Form form;
  Presence presence = Presence::Always;

  [[nodiscard]] std::string_view key_by(CutAxis axis) const { return key == kBlockKey ? block_key(axis) : key; }
};

template <typename Item>
concept IsField = requires(const Item& item) {
  item.access;
};

template <typename Access, typename Form = AsItIs>
constexpr auto field(std::string_view key, Access access, Form form = {}, Presence presence = Presence::Always) {
  return DocumentField<Access, Form>{key, access, form, presence};
}
template <typename Access, typename Form = AsItIs>
constexpr auto field_if_set(std::string_view key, Access access, Form form = {}) {
  return field(key, access, form, Presence::IfSet);
}

/// The fields of a member, written directly into the object instead of an object of their own.
template <typename T, typename Member, typename... Fields>
constexpr auto within(Member T::*member, const std::tuple<Fields...>& fields) {
  return std::apply(
      [member](const auto&... each) {
        return std::tuple(field(
            each.key,
            [ member, access = each.access ](auto& value) -> auto& { return std::invoke(access, value.*member); },
            each.form, each.presence)...);
      },
      fields);
}

/// First in the list of a whole document: its schema's name, "plan" for "mc2.plan/1". Parts of documents have none.
struct Document {
  std::string_view kind;
};
constexpr Document document(std::string_view kind) { return {kind}; }

/// Last in a list: validates a value after each field was found legal by itself.
template <typename Check>
struct Checked {
  Check check;
};
template <typename Check>
constexpr Checked<Check> checked(Check check) {
  return {check};
}

/// The value itself. Throws std::range_error for a NaN or infinity, which has no JSON form. Values are validated before
/// they are encoded, so this is a mistake in mc2. An exception, not an abort: only one answer of a service then fails.
[[nodiscard]] double finite(double value);
/// "mc2.<kind>/1".
[[nodiscard]] std::string schema_name(std::string_view kind);
/// Records NewerVersion if the number in "mc2.<kind>/<number>" is above 1, and Malformed for another kind or none.
void check_schema(const Node& node, std::string_view kind);
[[nodiscard]] std::map<std::string, std::string> read_texts(const Node& node);

template <typename T>
inline constexpr bool kIsOptional = false;
template <typename T>
inline constexpr bool kIsOptional<std::optional<T>> = true;
template <typename T>
inline constexpr bool kIsVector = false;
template <typename T>
inline constexpr bool kIsVector<std::vector<T>> = true;

// ---- writing ----

template <const auto& kList, typename T>
[[nodiscard]] Json write_object(const T& value, CutAxis axis);

template <typename T, typename Form = AsItIs>
[[nodiscard]] Json write_value(const T& value, CutAxis axis, const Form& form = {}) {
  if constexpr (requires { form.write(value); })
    return form.write(value);
  else if constexpr (kIsOptional<T>)
    return write_value(*value, axis, form);
  else if constexpr (kIsVector<T>) {
    Json result = Json::array();
    for (const auto& each : value) result.push_back(write_value(each, axis, form));
    return result;
  } else if constexpr (Described<T>)
    return write_object<kFields<T>>(value, axis);
  else if constexpr (std::is_floating_point_v<T>)
    return finite(value);
  else if constexpr (std::is_same_v<T, std::chrono::nanoseconds>)
    return value.count();
  else if constexpr (std::is_constructible_v<Json, const T&> && !std::is_enum_v<T>)
    return value;
  else
    return to_string(value);
}

template <typename T, typename F>
[[nodiscard]] bool is_written(const F& field, const T& value) {
  const auto& member = std::invoke(field.access, value);
  using Member = std::remove_cvref_t<decltype(member)>;
  if constexpr (requires { field.form.is_written(member); })
    return field.form.is_written(member);
  else if constexpr (kIsOptional<Member>)
    return member.has_value();
  else if constexpr (std::equality_comparable<Member>) {
    if (field.presence != Presence::IfSet) return true;
    const T fresh{};
    return member != std::invoke(field.access, fresh);
  } else {
    return true;
  }
}

template <const auto& kList, typename T>
[[nodiscard]] Json write_object(const T& value, CutAxis axis) {
  Json result = Json::object();
  const auto write = [&]<typename Item>(const Item& item) {
    if constexpr (std::is_same_v<Item, Document>)
      result["schema"] = schema_name(item.kind);
    else if constexpr (IsField<Item>) {
      const auto& member = std::invoke(item.access, value);
      if constexpr (std::is_same_v<decltype(member), const planner::OpSpec&>) axis = planner::cut_axis(member);
      if (is_written(item, value)) result[std::string(item.key_by(axis))] = write_value(member, axis, item.form);
    }
  };
  std::apply([&](const auto&... item) { (write(item), ...); }, kList);
  return result;
}

// ---- reading ----

template <const auto& kList, typename T>
void read_object(const Node& node, T& value, CutAxis axis);

/// A whole number within the limits of both the form and the type.
template <typename T>
[[nodiscard]] T whole_number(const Node& node, const WholeNumber& form) {
  using Limits = std::numeric_limits<T>;
  return T(
      node.integer(std::max<std::int64_t>(form.low, Limits::min()), std::min<std::int64_t>(form.high, Limits::max())));
}

template <typename T, typename Form = AsItIs>
void read_value(const Node& node, T& value, CutAxis axis, const Form& form = {}) {
  if constexpr (requires { form.read(node, value); })
    form.read(node, value);
  else if constexpr (kIsOptional<T>)
    read_value(node, value.emplace(), axis, form);
  else if constexpr (kIsVector<T>)
    value = node.list([&](const Node& element) {
      typename T::value_type each{};
      read_value(element, each, axis, form);
      return each;
    });
  else if constexpr (Described<T>)
    read_object<kFields<T>>(node, value, axis);
  else if constexpr (std::is_same_v<T, bool>)
    value = node.boolean();
  else if constexpr (std::is_same_v<T, std::chrono::nanoseconds>)
    value = T(node.integer(form.low, form.high));
  else if constexpr (std::is_same_v<Form, WholeNumber>)
    value = whole_number<T>(node, form);
  else if constexpr (std::is_integral_v<T>)
    read_value(node, value, axis, WholeNumber{});
  else if constexpr (std::is_floating_point_v<T>)
    value = node.number();
  else if constexpr (std::is_same_v<Form, Name>)
    value = node.name();
  else if constexpr (std::is_same_v<T, std::string>)
    value = node.text();
  else if constexpr (std::is_same_v<T, std::map<std::string, std::string>>)
    value = read_texts(node);
  else
    value = node.name(Parser<T>(form));
}

/// The keys of a list, sorted.
struct KeyList {
  std::vector<std::string_view> required, optional;
};

template <const auto& kList, typename T>
[[nodiscard]] KeyList key_list(CutAxis axis) {
  KeyList keys;
  const auto add = [&]<typename Item>(const Item& item) {
    if constexpr (std::is_same_v<Item, Document>)
      keys.required.push_back("schema");
    else if constexpr (IsField<Item>) {
      using Member = std::remove_cvref_t<std::invoke_result_t<decltype(item.access), T&>>;
      const bool is_optional =
          item.presence != Presence::Always || kIsOptional<Member> || requires(const Member& member) {
        item.form.is_written(member);
      };
      (is_optional ? keys.optional : keys.required).push_back(item.key_by(axis));
    }
  };
  std::apply([&](const auto&... item) { (add(item), ...); }, kList);
  std::ranges::sort(keys.required);
  std::ranges::sort(keys.optional);
  return keys;
}

template <const auto& kList, typename T>
void read_object(const Node& node, T& value, CutAxis axis) {
  static const std::array<KeyList, 2> kKeys{key_list<kList, T>(CutAxis::Rows), key_list<kList, T>(CutAxis::Columns)};
  const auto& keys = kKeys[axis == CutAxis::Rows ? 0 : 1];
  const auto begin = [&]<typename Item>(const Item& item) {
    if constexpr (std::is_same_v<Item, Document>)
      check_schema(node, item.kind);
    else if constexpr (IsField<Item>)
      if (item.key == kBlockKey) refuse_rows_for_columns(node, axis);
  };
  std::apply([&](const auto&... item) { (begin(item), ...); }, kList);
  const Fields fields(node, keys.required, keys.optional);
  const auto read = [&]<typename Item>(const Item& item) {
    if (!node.is_ok()) return;
    if constexpr (IsField<Item>) {
      if (!fields.has(item.key_by(axis))) return;
      auto& member = std::invoke(item.access, value);
      read_value(fields[item.key_by(axis)], member, axis, item.form);
      if constexpr (std::is_same_v<decltype(member), planner::OpSpec&>)
        if (node.is_ok()) axis = planner::cut_axis(member);
    } else if constexpr (requires { item.check(value); })
      node.check(item.check(value));
  };
  std::apply([&](const auto&... item) { (read(item), ...); }, kList);
}

template <Described T>
[[nodiscard]] Json write_described(const T& value) {
  return write_object<kFields<T>>(value, CutAxis::Rows);
}

/// Reads a whole value. The schema's name is checked first.
template <Described T>
[[nodiscard]] T read_described(const Node& node) {
  T value{};
  read_object<kFields<T>>(node, value, CutAxis::Rows);
  return value;
}

} // namespace mc2::store

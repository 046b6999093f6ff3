#include "mc2/store/codec.hpp"

#include <sodium.h>

#include <array>
#include <cctype>

#include "codec_parts.hpp"
#include "mc2/planner/text.hpp"

namespace mc2::store {

std::string schema_of(std::string_view document) {
  using Event = Json::parse_event_t;
  std::string found;
  bool is_schema = false;
  const auto look = [&](int depth, Event event, Json& value) {
    if (event == Event::value && is_schema && value.is_string()) found = value.get<std::string>();
    is_schema = event == Event::key && depth == 1 && value == "schema";
    return depth == 0; // nothing inside the document is kept
  };
  const Json discarded = Json::parse(document, look, false);
  return found;
}

template <>
inline constexpr auto kFields<planner::Fingerprint> = std::tuple(document("fingerprint"),
                                                                 field("fields", &planner::Fingerprint::fields));

template <>
planner::Fingerprint read_document(const Node& node) {
  return read_described<planner::Fingerprint>(node);
}

template <>
planner::OpSpec read_document(const Node& node) {
  return read_described<planner::OpSpec>(node);
}

std::string encode(const planner::Fingerprint& fingerprint) { return dump(write_described(fingerprint)); }
std::string encode(const planner::Plan& plan) { return dump(write_plan(plan)); }
std::string encode(const planner::OpSpec& op) { return dump(write_described(op)); }

Result<planner::OpSpec> decode_op(std::string_view json) { return decode_document<planner::OpSpec>(json); }
Result<planner::Plan> decode_plan(std::string_view json) { return decode_document<planner::Plan>(json); }
Result<planner::CostModel> decode_model(std::string_view json) { return decode_document<planner::CostModel>(json); }
Result<planner::Profile> decode_profile(std::string_view json) { return decode_document<planner::Profile>(json); }
Result<planner::Fingerprint> decode_fingerprint(std::string_view json) {
  return decode_document<planner::Fingerprint>(json);
}
Result<MeasurementRecord> decode_measurement(std::string_view json) { return decode_document<MeasurementRecord>(json); }
Result<planner::Topology> decode_topology(std::string_view json) { return decode_document<planner::Topology>(json); }

Result<void> require_json(std::string_view text) {
  MC2_TRY(parse_json(text));
  return {};
}

std::string pretty(std::string_view json) {
  const auto document = parse_json(json);
  MC2_CHECK(document.ok(), "pretty() takes a document that encode() made");
  return document.value().dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

void initialise_sodium() {
  static const int initialised = sodium_init();
  MC2_CHECK(initialised >= 0, "libsodium cannot be initialised");
}

std::string to_hex(std::span<const std::uint8_t> bytes) {
  std::string text(2 * bytes.size() + 1, '\0');
  sodium_bin2hex(text.data(), text.size(), bytes.data(), bytes.size());
  text.pop_back();
  return text;
}

std::string digest(std::string_view bytes) {
  initialise_sodium();
  std::array<std::uint8_t, crypto_hash_sha256_BYTES> hash{};
  crypto_hash_sha256(hash.data(), reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  return to_hex(hash);
}
std::string digest(const planner::Fingerprint& fingerprint) { return digest(fingerprint.canonical_text()); }

Result<std::string> read_digest(std::string_view text, std::size_t fewest_digits) {
  constexpr std::size_t kDigits = 2 * crypto_hash_sha256_BYTES;
  std::string digits;
  for (const char c : text) digits += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const bool is_hexadecimal = digits.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (is_hexadecimal && digits.size() >= fewest_digits && digits.size() <= kDigits) return digits;
  return Error{
      ErrorCode::InvalidSpec, "digest",
      in_quotes(text) + " is no digest; give its first " + std::to_string(fewest_digits) + " to 64 hexadecimal digits"};
}

} // namespace mc2::store

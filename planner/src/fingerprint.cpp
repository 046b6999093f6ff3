#include "mc2/planner/fingerprint.hpp"

#include "mc2/planner/text.hpp"

namespace mc2::planner {
namespace {

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\' || c == ';' || c == '=') result += '\\';
    result += c;
  }
  return result;
}

std::string field_or(const Fingerprint& fingerprint, const std::string& key, const char* fallback) {
  const auto found = fingerprint.fields.find(key);
  return found == fingerprint.fields.end() ? fallback : found->second;
}

} // namespace

std::string_view Fingerprint::field(std::string_view key) const {
  const auto found = fields.find(std::string(key));
  return found == fields.end() ? std::string_view() : found->second;
}

bool Fingerprint::is_elsewhere() const {
  const std::string_view backend = field("backend");
  return backend == "published" || backend == "imported";
}

std::string Fingerprint::canonical_text() const {
  const auto field_text = [](const auto& field) { return escaped(field.first) + "=" + escaped(field.second); };
  return list_text(fields, field_text, "; ");
}

std::string Fingerprint::label() const {
  std::string result =
      field_or(*this, "backend", "unknown backend") + " on " +
      field_or(*this, "cpu_model",
               field_or(*this, "gpu_model", field_or(*this, "device", "unknown device").c_str()).c_str()) +
      ", link " + field_or(*this, "link", "unknown");
  if (const auto nodes = field("nodes"); !nodes.empty() && nodes != "1") result += ", " + std::string(nodes) + " nodes";
  if (field("pinning") == "none") result += ", not pinned";
  if (is_emulated()) result += " [EMULATED: " + fields.at("emulation") + "]";
  if (is_shared_device()) result += " [SHARED DEVICE: by " + fields.at("ranks_per_device") + " ranks]";
  return result;
}

Result<void> Fingerprint::require_speeds() const {
  if (!is_shared_device()) return {};
  return Error{
      ErrorCode::Unsupported, "ranks_per_device",
      "is " + fields.at("ranks_per_device") +
          ": ranks that share a device wait for one another, so nothing is timed or kept there; give each rank "
          "a device (unset MC2_RANKS_PER_DEVICE)"};
}

Result<void> Fingerprint::require_ranks(int world_size) const {
  const std::string_view ranks = field("ranks");
  if (ranks.empty() || ranks == std::to_string(world_size)) return {};
  return Error{ErrorCode::InvalidSpec, "ranks",
               std::to_string(world_size) + ", but the machine has " + std::string(ranks)};
}

std::vector<std::string> Fingerprint::differences(const Fingerprint& other) const {
  std::vector<std::string> result;
  for (const auto& [key, here] : fields) {
    const std::string there = field_or(other, key, "nothing");
    if (there != here) result.push_back(key + ": here '" + here + "', there '" + there + "'");
  }
  for (const auto& [key, there] : other.fields)
    if (!fields.contains(key)) result.push_back(key + ": here 'nothing', there '" + there + "'");
  return result;
}

std::string nccl_version(std::string_view text) {
  text = text.substr(0, text.find('+'));
  const auto code = number_in<int>(text);
  if (!code || *code < 1000) return std::string(text);
  // NCCL_VERSION in nccl.h: one digit for the minor version until 2.8.
  const int major = *code >= 10'000 ? *code / 10'000 : *code / 1000, minor = *code / 100 % (*code >= 10'000 ? 100 : 10);
  return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(*code % 100);
}

} // namespace mc2::planner

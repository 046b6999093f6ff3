#include <charconv>
#include <cmath>
#include <span>
#include <string>
#include <string_view>
#include <system_error>

#include "mc2/executor/backend.hpp"
#include "mc2/planner/text.hpp"
#include "texts.hpp"

namespace mc2::executor {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr Unit kRateUnits[] = {{"Gbit", 1e9}, {"Mbit", 1e6}, {"kbit", 1e3}}; // bit/s
constexpr Unit kTimeUnits[] = {{"ms", 1e6}, {"us", 1e3}, {"ns", 1.0}};       // ns
constexpr Unit kSpeedUnits[] = {{"Tflops", 1e3}, {"Gflops", 1.0}};           // Gflop/s

constexpr double kMinBitsPerS = 1e3;
constexpr double kMaxBitsPerS = 1e13;
constexpr double kMaxTimeNs = 1e9;
constexpr double kMinGflopPerS = 1e-3;
constexpr double kMaxGflopPerS = 1e9;

constexpr std::string_view kLinkForms =
    "legal forms: shm | RATE[,LATENCY] such as 2.5Gbit,20us | tcp:RATE such as tcp:2.5Gbit "
    "(rate 1kbit..10000Gbit; latency 0ns..1000ms)";
constexpr std::string_view kVirtualForms =
    "legal form: RATE[,FIXED] such as 90Gflops,10us (rate 0.001Gflops..1000000Tflops; fixed 0ns..1000ms)";

/// The complaint about a piece of text; the caller adds the legal forms.
using Complaint = std::string;

std::string quoted(std::string_view text) { return std::string("\"").append(text).append("\""); }

std::string plain_number(double value) {
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed).ptr;
  return {buffer, end};
}

/// Reads e.g. "2.5Gbit" as number * factor. The complaint is empty on success.
Complaint read_quantity(std::string_view text, std::string_view what, std::span<const Unit> units, double& value) {
  const std::string name(what);
  if (text.empty()) return "the " + name + " is missing";
  double number = 0;
  const auto [rest, code] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  const bool starts_with_digit = text.front() >= '0' && text.front() <= '9';
  if (code == std::errc::result_out_of_range) number = HUGE_VAL; // check_range() then refuses it
  if (code == std::errc::invalid_argument || !starts_with_digit)
    return "the " + name + " " + quoted(text) + " is not a number with a unit";
  const std::string_view unit_text = text.substr(static_cast<std::size_t>(rest - text.data()));
  for (const Unit& unit : units) {
    if (unit.name != unit_text) continue;
    value = number * unit.factor;
    return {};
  }
  if (unit_text.size() > 1 && unit_text[0] == 'e' && unit_text.find_first_of("0123456789") != std::string_view::npos)
    return "the " + name + " " + quoted(text) + " has an exponent; write its digits";
  return "the " + name + " " + quoted(text) + " needs one of the units " + list_text(units, &Unit::name);
}

Complaint check_range(double value, double low, double high, std::string_view what) {
  if (std::isfinite(value) && value >= low && value <= high) return {};
  return "the " + std::string(what) + " is outside its legal range";
}

Complaint read_in_range(std::string_view text, std::string_view what, std::span<const Unit> units, double low,
                        double high, double& value) {
  if (auto wrong = read_quantity(text, what, units, value); !wrong.empty()) return wrong;
  return check_range(value, low, high, std::string(what) + " " + quoted(text));
}

/// The text of whole nanoseconds in the largest unit that needs no fraction, e.g. "20us".
std::string time_text(double time_us) {
  const auto ns = static_cast<std::int64_t>(std::llround(time_us * planner::kNsPerUs));
  for (const Unit& unit : kTimeUnits) {
    const auto factor = static_cast<std::int64_t>(unit.factor);
    if (ns % factor == 0) return std::to_string(ns / factor) + std::string(unit.name);
  }
  return std::to_string(ns) + "ns";
}

std::string rate_text(double bits_per_s) {
  for (const Unit& unit : kRateUnits) {
    if (bits_per_s >= unit.factor) return plain_number(bits_per_s / unit.factor) + std::string(unit.name);
  }
  return plain_number(bits_per_s / 1e3) + "kbit";
}

Complaint read_link(std::string_view text, LinkSpec& link) {
  if (text.empty()) return "the link is empty";
  if (text == "shm") return {};
  constexpr std::string_view kTcp = "tcp:";
  const bool is_tcp = text.starts_with(kTcp);
  link.mode = is_tcp ? LinkSpec::Mode::Tcp : LinkSpec::Mode::Emulated;
  if (is_tcp) text.remove_prefix(kTcp.size());
  const auto comma = text.find(',');
  auto wrong = read_in_range(text.substr(0, comma), "rate", kRateUnits, kMinBitsPerS, kMaxBitsPerS, link.bits_per_s);
  if (!wrong.empty()) return wrong;
  link.bits_per_s = std::round(link.bits_per_s); // whole bit/s, so that text() and parse_link() are exact inverses
  if (comma == std::string_view::npos) return {};
  if (is_tcp) return "a tcp link takes no latency, but got " + quoted(text.substr(comma + 1));
  double latency_ns = 0;
  wrong = read_in_range(text.substr(comma + 1), "latency", kTimeUnits, 0, kMaxTimeNs, latency_ns);
  link.latency_us = std::round(latency_ns) / planner::kNsPerUs;
  return wrong;
}

Complaint read_virtual_compute(std::string_view text, VirtualCompute& device) {
  const auto comma = text.find(',');
  auto wrong =
      read_in_range(text.substr(0, comma), "rate", kSpeedUnits, kMinGflopPerS, kMaxGflopPerS, device.gflop_per_s);
  if (!wrong.empty() || comma == std::string_view::npos) return wrong;
  double fixed_ns = 0;
  wrong = read_in_range(text.substr(comma + 1), "fixed time", kTimeUnits, 0, kMaxTimeNs, fixed_ns);
  device.fixed_us = std::round(fixed_ns) / planner::kNsPerUs;
  return wrong;
}

Error invalid(std::string_view field, const Complaint& wrong, std::string_view forms) {
  return {ErrorCode::InvalidSpec, std::string(field), wrong + "; " + std::string(forms)};
}

Complaint complaint_about(const LinkSpec& link) {
  if (link.mode == LinkSpec::Mode::SharedMemory) {
    return link.bits_per_s == 0 && link.latency_us == 0 ? "" : "a shm link has neither rate nor latency";
  }
  if (auto wrong = check_range(link.bits_per_s, kMinBitsPerS, kMaxBitsPerS, "rate"); !wrong.empty()) return wrong;
  const double max_latency_us = link.mode == LinkSpec::Mode::Tcp ? 0 : kMaxTimeNs / planner::kNsPerUs;
  return check_range(link.latency_us, 0, max_latency_us, "latency");
}

Complaint complaint_about(const VirtualCompute& device) {
  auto wrong = check_range(device.gflop_per_s, kMinGflopPerS, kMaxGflopPerS, "rate");
  if (!wrong.empty()) return wrong;
  return check_range(device.fixed_us, 0, kMaxTimeNs / planner::kNsPerUs, "fixed time");
}

} // namespace

std::string LinkSpec::text() const {
  switch (mode) {
    case Mode::SharedMemory: return "shm";
    case Mode::Tcp: return std::string("tcp:").append(rate_text(bits_per_s));
    case Mode::Emulated: break;
  }
  std::string text = rate_text(bits_per_s);
  if (latency_us > 0) text.append(",").append(time_text(latency_us));
  return text;
}

Result<LinkSpec> parse_link(std::string_view text) {
  LinkSpec link;
  if (auto wrong = read_link(text, link); !wrong.empty()) return invalid("link", wrong, kLinkForms);
  return link;
}

std::string VirtualCompute::text() const {
  std::string text = plain_number(gflop_per_s).append("Gflops");
  if (fixed_us > 0) text.append(",").append(time_text(fixed_us));
  return text;
}

double VirtualCompute::block_us(double flop_count) const noexcept {
  constexpr double kFlopPerUsOfOneGflopPerS = 1e3;
  return fixed_us + flop_count / (gflop_per_s * kFlopPerUsOfOneGflopPerS);
}

Result<VirtualCompute> parse_virtual_compute(std::string_view text) {
  VirtualCompute device;
  if (auto wrong = read_virtual_compute(text, device); !wrong.empty()) {
    return invalid("virtual_compute", wrong, kVirtualForms);
  }
  return device;
}

Result<void> CommunicatorOptions::validate() const {
  constexpr std::chrono::hours kMaxDeadline{24 * 7};
  if (world_size < 2 || world_size > kMostRanks) {
    return Error{ErrorCode::InvalidSpec, "world_size",
                 "is " + std::to_string(world_size) + "; legal: 2 to " + std::to_string(kMostRanks)};
  }
  if (auto wrong = complaint_about(link); !wrong.empty()) return invalid("link", wrong, kLinkForms);
  if (virtual_compute) {
    if (auto wrong = complaint_about(*virtual_compute); !wrong.empty()) {
      return invalid("virtual_compute", wrong, kVirtualForms);
    }
  }
  if (deadline < std::chrono::milliseconds{1} || deadline > kMaxDeadline) {
    return Error{ErrorCode::InvalidSpec, "deadline",
                 std::to_string(deadline.count()) + " ms; legal are 1 ms to 7 days"};
  }
  if (process && (process->rank < 0 || process->rank >= world_size)) {
    return Error{ErrorCode::InvalidSpec, "process",
                 rank_text(process->rank) + " of " + std::to_string(world_size) + "; legal are 0.." +
                     std::to_string(world_size - 1)};
  }
  if (process && process->key.empty())
    return Error{ErrorCode::InvalidSpec, "process",
                 "has no key; give one that all processes of this world share and no others"};
  return {};
}

} // namespace mc2::executor

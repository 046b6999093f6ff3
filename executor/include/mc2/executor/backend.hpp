#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mc2/executor/communicator.hpp"
#include "mc2/planner/cost_model.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/fingerprint.hpp"
#include "mc2/planner/op_spec.hpp"

#pragma GCC visibility push(default)

namespace mc2::executor {

/// What carries data between ranks.
struct LinkSpec {
  enum class Mode : std::uint8_t {
    SharedMemory, ///< plain loads and stores; communication costs CPU time and nothing else
    Emulated,     ///< the data really moves, then the lane sleeps until a link of this speed would have delivered it
    Tcp,          ///< loopback TCP, paced by the kernel (SO_MAX_PACING_RATE)
  };
  Mode mode = Mode::SharedMemory;
  double bits_per_s = 0; ///< of each direction of one rank, whole bit/s; 0 for SharedMemory. Tcp shares it equally
                         ///< among the rank's connections
  double latency_us = 0; ///< added to every block, whole ns; Emulated only

  /// "shm", "2.5Gbit,20us" or "tcp:2.5Gbit": parse_link(text()) gives the same link.
  [[nodiscard]] std::string text() const;
  [[nodiscard]] bool is_emulated() const noexcept { return mode != Mode::SharedMemory; }
  bool operator==(const LinkSpec&) const = default;
};

/// Reads "shm", "RATE[,LATENCY]" or "tcp:RATE"; RATE is a number with kbit, Mbit or Gbit, LATENCY with ns, us or ms.
/// Errors: InvalidSpec naming the part that cannot be read and the legal forms; rates are 1 kbit to 10 Tbit,
/// latencies 0 to 1 s.
[[nodiscard]] Result<LinkSpec> parse_link(std::string_view text);

/// A compute lane that sleeps for a modelled time instead of computing:
/// time of a block = fixed_us + flop_count / (gflop_per_s * 1000) us, as OpSpec::flop_count counts.
struct VirtualCompute {
  double gflop_per_s = 0;
  double fixed_us = 0;

  /// "90Gflops,10us": parse_virtual_compute(text()) gives the same device.
  [[nodiscard]] std::string text() const;
  [[nodiscard]] double block_us(double flop_count) const noexcept;
  bool operator==(const VirtualCompute&) const = default;
};

/// Reads "RATE[,FIXED]"; RATE is a number with Gflops or Tflops, FIXED with ns, us or ms. Errors: InvalidSpec.
[[nodiscard]] Result<VirtualCompute> parse_virtual_compute(std::string_view text);

/// Which rank a process holds, where every rank of a world is held by a process of its own (launched_process()).
struct ProcessPlace {
  int rank = 0;
  /// the same in all processes of the world, and in those of no other world of this user that opens meanwhile
  std::string key;
  /// Where rank 0 waits for the others, "host:port", where they are on several hosts; empty: all are on this one.
  std::string address{};
  /// Of the ranks on this host; with an address.
  int local_rank = 0, local_size = 0;
  bool operator==(const ProcessPlace&) const = default;

  [[nodiscard]] bool spans_hosts() const noexcept { return !address.empty(); }
  /// Which of this host's devices is the rank's.
  [[nodiscard]] int device() const noexcept { return spans_hosts() ? local_rank : rank; }
};

/// No world has more; Backend::most_ranks() may be fewer.
inline constexpr int kMostRanks = 1024;

struct CommunicatorOptions {
  int world_size = 2;
  LinkSpec link;
  std::optional<VirtualCompute> virtual_compute;
  bool pin_threads = true;
  std::chrono::milliseconds deadline{60'000}; ///< one run that takes longer is aborted with an error naming the rank
  /// The caller's communicators of the collective library (ncclComm_t), by local rank, for variants that leave its
  /// settings alone; empty: the backend opens its own. They must outlive what is opened, and stay the caller's: never
  /// aborted or destroyed.
  std::vector<void*> native_communicators{};
  /// Unset: this process holds all ranks. Backend cuda only: a rank then works on ProcessPlace::device() of its host.
  std::optional<ProcessPlace> process{};

  /// Errors: InvalidSpec naming the option.
  [[nodiscard]] Result<void> validate() const;
};

struct Availability {
  bool is_available = false;
  std::string reason; ///< what it would run on, or why it is missing and what would make it available
};

/// A kind of device that runs plans. Stateless; safe to share.
class Backend {
 public:
  virtual ~Backend() = default;

  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  /// @param local_ranks that this machine is to hold: at least 2, but for worlds of several hosts
  [[nodiscard]] virtual Availability availability(int local_ranks = 2) const = 0;
  /// How many ranks to ask about where nobody has said.
  [[nodiscard]] virtual int usual_world_size() const { return CommunicatorOptions{}.world_size; }
  /// Of a world.
  [[nodiscard]] virtual int most_ranks() const noexcept { return kMostRanks; }
  /// Errors: Unsupported above most_ranks().
  [[nodiscard]] Result<void> check_rank_count(int world_size) const;
  /// Variants worth measuring for an operator over these options' link, best known default first. Settings that are not
  /// among them may be legal too (check_variant). `options` are valid.
  [[nodiscard]] virtual std::vector<planner::Variant> variants(const planner::OpSpec& op,
                                                               const CommunicatorOptions& options) const = 0;
  /// Whether all variants multiply alike and differ in their collectives only.
  [[nodiscard]] virtual bool variants_share_matmul() const noexcept { return false; }
  /// Whether prepare() would take the variant for this operator. Errors: UnknownName, listing the variants that the
  /// backend has; InvalidSpec naming the setting; Unsupported.
  [[nodiscard]] virtual Result<void> check_variant(const planner::OpSpec& op, const CommunicatorOptions& options,
                                                   const planner::Variant& variant) const = 0;
  /// Whether the backend can run this operator and type here, with operands of its own. Errors: Unsupported with the
  /// reason, InvalidSpec.
  [[nodiscard]] virtual Result<void> supports(const planner::OpSpec& op) const = 0;
  /// As supports(), but for memory: of an operator whose operands are there already. Opens no device.
  [[nodiscard]] virtual Result<void> takes(const planner::OpSpec& op, const CommunicatorOptions& /*options*/) const {
    return supports(op);
  }
  /// What makes measurements on this backend comparable; queries the machine. `options` are valid.
  [[nodiscard]] virtual planner::Fingerprint fingerprint(const CommunicatorOptions& options) const = 0;
  /// Starts the ranks. Order: *collective* where processes hold them. Errors: InvalidSpec (options), Unsupported.
  /// Throws SystemError.
  [[nodiscard]] virtual Result<std::unique_ptr<Communicator>> open(const CommunicatorOptions& options) const = 0;
};

/// Every backend in this build, best default first.
[[nodiscard]] std::span<const Backend* const> backend_registry() noexcept;

/// Errors: UnknownName, listing the legal names.
[[nodiscard]] Result<const Backend*> find_backend(std::string_view name);

} // namespace mc2::executor

#pragma GCC visibility pop

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
  double bits_per_s = 0; ///< in each direction of one rank, a whole number; 0 for SharedMemory. Tcp divides it equally
                         ///< among the rank's connections
  double latency_us = 0; ///< added to every block, a whole number of ns; Emulated only

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
/// time of a block = fixed_us + flop_count / (gflop_per_s * 1000) us, with flop_count as in OpSpec::flop_count.
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

/// Which rank a process holds, in a world where each rank has a process of its own (launched_process()).
struct ProcessPlace {
  int rank = 0;
  /// All processes of the world have the same key. No other world that this user opens at the same time has it.
  std::string key;
  /// The address "host:port" where rank 0 waits for the others, if they are on several hosts. Empty: all are on this
  /// host.
  std::string address{};
  /// This process's number among those on this host, and how many there are; only with an address.
  int local_rank = 0, local_size = 0;
  bool operator==(const ProcessPlace&) const = default;

  [[nodiscard]] bool spans_hosts() const noexcept { return !address.empty(); }
  /// The number of the rank's device on this host.
  [[nodiscard]] int device() const noexcept { return spans_hosts() ? local_rank : rank; }
};

/// The largest number of ranks of a world on any backend; Backend::most_ranks() may be smaller.
inline constexpr int kMostRanks = 1024;

struct CommunicatorOptions {
  int world_size = 2;
  LinkSpec link;
  std::optional<VirtualCompute> virtual_compute;
  bool pin_threads = true;
  std::chrono::milliseconds deadline{60'000}; ///< a run that takes longer is aborted with an error naming the rank
  /// The caller's communicators of the collective library (ncclComm_t), one per local rank, for variants that do not
  /// change the library's settings. Empty: the backend opens its own. They must outlive the opened communicator and
  /// remain the caller's: mc2 never aborts or destroys them.
  std::vector<void*> native_communicators{};
  /// Unset: this process holds all ranks. Backend cuda only: this process holds one rank, on ProcessPlace::device() of
  /// its host.
  std::optional<ProcessPlace> process{};

  /// Errors: InvalidSpec naming the option.
  [[nodiscard]] Result<void> validate() const;
};

struct Availability {
  bool is_available = false;
  std::string reason; ///< what the backend would run on, or why it cannot run and what would make it available
};

/// A kind of device that runs plans. Stateless; safe to share.
class Backend {
 public:
  virtual ~Backend() = default;

  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  /// @param local_ranks  ranks that this machine is to hold; at least 2, or 1 in a world of several hosts
  [[nodiscard]] virtual Availability availability(int local_ranks = 2) const = 0;
  /// The number of ranks to assume where the user named none.
  [[nodiscard]] virtual int usual_world_size() const { return CommunicatorOptions{}.world_size; }
  /// The largest number of ranks of a world.
  [[nodiscard]] virtual int most_ranks() const noexcept { return kMostRanks; }
  /// Errors: Unsupported above most_ranks().
  [[nodiscard]] Result<void> check_rank_count(int world_size) const;
  /// Whether the backend can behave as if it had another link or other cores.
  [[nodiscard]] virtual bool emulates() const noexcept { return false; }
  /// Errors: Unsupported (link, virtual_compute) for options that ask a backend to emulate what it cannot.
  [[nodiscard]] Result<void> check_emulation(const CommunicatorOptions& options) const;
  /// Variants worth measuring for an operator over the link of `options`, best known default first. Variants with other
  /// settings may be legal, too (check_variant). `options` must be valid.
  [[nodiscard]] virtual std::vector<planner::Variant> variants(const planner::OpSpec& op,
                                                               const CommunicatorOptions& options) const = 0;
  /// Whether all variants run the same matmul and differ only in their collectives.
  [[nodiscard]] virtual bool variants_share_matmul() const noexcept { return false; }
  /// Succeeds if prepare() would accept the variant for this operator. Errors: UnknownName, listing the backend's
  /// variants; InvalidSpec naming the setting; Unsupported.
  [[nodiscard]] virtual Result<void> check_variant(const planner::OpSpec& op, const CommunicatorOptions& options,
                                                   const planner::Variant& variant) const = 0;
  /// Succeeds if the backend can run this operator and type here, with operands that it allocates itself. Errors:
  /// Unsupported with the reason, InvalidSpec.
  [[nodiscard]] virtual Result<void> supports(const planner::OpSpec& op) const = 0;
  /// As supports(), without the check for memory: the operands exist already. Opens no device.
  [[nodiscard]] virtual Result<void> takes(const planner::OpSpec& op, const CommunicatorOptions& /*options*/) const {
    return supports(op);
  }
  /// What makes measurements on this backend comparable; queries the machine. `options` must be valid.
  [[nodiscard]] virtual planner::Fingerprint fingerprint(const CommunicatorOptions& options) const = 0;
  /// Starts the ranks. Order: *collective* where several processes hold them. Errors: InvalidSpec (options),
  /// Unsupported. Throws SystemError.
  [[nodiscard]] virtual Result<std::unique_ptr<Communicator>> open(const CommunicatorOptions& options) const = 0;
};

/// Every backend in this build, best default first.
[[nodiscard]] std::span<const Backend* const> backend_registry() noexcept;

/// Errors: UnknownName, listing the legal names.
[[nodiscard]] Result<const Backend*> find_backend(std::string_view name);

} // namespace mc2::executor

#pragma GCC visibility pop

#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "mc2/planner/error.hpp"
#include "mc2/planner/op_spec.hpp"

#pragma GCC visibility push(default)

namespace mc2::planner {

/// How a collective moves its data; formulas in docs/cost_model.md, "Collectives at scale". Values are stored: never
/// renumber.
enum class Algorithm : std::uint8_t {
  Ring = 1,         ///< all but all-to-all
  Tree = 2,         ///< double binary tree over nodes, chains inside them; all-reduce only
  Direct = 3,       ///< every rank to every other
  Hierarchical = 4, ///< inside the nodes first, then each rail among the nodes
  SwitchTree = 5,   ///< reduced and multicast by the node's switch, double binary tree over nodes; all-reduce only
};

[[nodiscard]] std::string_view to_string(Algorithm algorithm) noexcept;
/// Errors: UnknownName.
[[nodiscard]] Result<Algorithm> parse_algorithm(std::string_view text);

/// Whether an algorithm can do a collective at all.
[[nodiscard]] bool can_do(Algorithm algorithm, Collective collective) noexcept;

/// Who posts a message to the network. Values are stored: never renumber.
enum class Transport : std::uint8_t {
  HostProxy = 1,       ///< one host thread per rank, one message after the other: message_us is its time per message
  DeviceInitiated = 2, ///< the device writes to many queues at once: message_us is the rail's time per message
};

[[nodiscard]] std::string_view to_string(Transport transport) noexcept;
/// Errors: UnknownName.
[[nodiscard]] Result<Transport> parse_transport(std::string_view text);

/// A link in the LogGP model: a message of b bytes arrives after alpha_us + b / bandwidth, and the next one can follow
/// after max(message_us, b / bandwidth).
/// Source: Alexandrov, Ionescu, Schauser and Scheiman, J. Parallel Distrib. Comput. 44, 1997.
struct LinkCost {
  double alpha_us = 0; ///< latency of one step, 0..kMaxLinkUs
  /// 10^9 B/s in each direction, kMinGbPerS..kMaxGbPerS: of one rank inside a node, of one rail between nodes
  double gb_per_s = 0;
  double message_us = 0; ///< 1 / message rate, 0..kMaxLinkUs
  bool operator==(const LinkCost&) const = default;
};

/// One way in which a library moves bytes, e.g. low latency at a part of the bandwidth, or high latency at all of it. A
/// collective uses the protocol that is fastest at its size.
struct Protocol {
  std::string name;
  double launch_us = 0;           ///< time added to every collective, whatever its size and ranks
  LinkCost intra;                 ///< one rank to others of its node
  LinkCost inter;                 ///< one rail of a node to other nodes
  bool reduces_in_switch = false; ///< true: only Algorithm::SwitchTree uses it, and no other protocol
  bool operator==(const Protocol&) const = default;
};

/// How far off constants may be that were assumed or published for other machines. A spread of x means: on nine of ten
/// machines, the constant is within a factor of 1 + x of the topology's, either way, in all protocols alike. 0: the
/// constant is known.
struct ConstantSpread {
  double launch_us = 0;
  double intra_alpha_us = 0;
  double inter_alpha_us = 0;
  double intra_gb_per_s = 0;
  double inter_gb_per_s = 0;
  double inter_message_us = 0;
  bool operator==(const ConstantSpread&) const = default;
};

/// A constant that every protocol has. Intervals and calibration scale it in all protocols alike.
struct ProtocolConstant {
  std::string_view name; ///< in a topology's document, below the protocol
  double& (*of)(Protocol&);
  double ConstantSpread::*spread;
  bool is_bandwidth;
};

inline constexpr std::array<ProtocolConstant, 6> kProtocolConstants{{
    {"launch_us", [](Protocol& p) -> double& { return p.launch_us; }, &ConstantSpread::launch_us, false},
    {"intra.alpha_us", [](Protocol& p) -> double& { return p.intra.alpha_us; }, &ConstantSpread::intra_alpha_us, false},
    {"inter.alpha_us", [](Protocol& p) -> double& { return p.inter.alpha_us; }, &ConstantSpread::inter_alpha_us, false},
    {"intra.gb_per_s", [](Protocol& p) -> double& { return p.intra.gb_per_s; }, &ConstantSpread::intra_gb_per_s, true},
    {"inter.gb_per_s", [](Protocol& p) -> double& { return p.inter.gb_per_s; }, &ConstantSpread::inter_gb_per_s, true},
    {"inter.message_us", [](Protocol& p) -> double& { return p.inter.message_us; }, &ConstantSpread::inter_message_us,
     false},
}};

/// Matmul speed of one rank where nothing was measured: flops / (peak * efficiency) + launch_us.
struct ComputeRate {
  double peak_tflop_per_s_16bit = 0; ///< 10^12 flop/s, f16 and bf16
  double peak_tflop_per_s_f32 = 0;
  double efficiency = 1; ///< part of the peak that a large matmul reaches, kMinEfficiency..1
  double launch_us = 0;
  bool operator==(const ComputeRate&) const = default;
};

inline constexpr int kMaxNodeCount = 65'536;
inline constexpr int kMaxRanksPerNode = 1024;
inline constexpr int kMaxRailsPerNode = 1024;
inline constexpr std::size_t kMaxProtocolCount = 16;
inline constexpr double kMaxLinkUs = 1e6;
inline constexpr double kMinGbPerS = 1e-6, kMaxGbPerS = 1e6;
inline constexpr double kMinChunkBytes = 1;
inline constexpr double kMaxChunkBytes = 1099511627776.0; ///< 1 TiB
inline constexpr double kMinTflopPerS = 1e-6, kMaxTflopPerS = 1e9;
inline constexpr double kMinEfficiency = 1e-6;
inline constexpr double kMaxTopologySlowdown = 100;
inline constexpr double kMaxRelativeInterval = 10;
inline constexpr double kMaxConstantSpread = 100;

/// A cluster of equal nodes, each with equal ranks and rails, and what its communication library can do on it.
struct Topology {
  std::string name;
  std::string source;                         ///< what the topology describes and where that is published, one sentence
  std::map<std::string, std::string> sources; ///< citation of each constant, keyed by its field
  int node_count = 1;
  int ranks_per_node = 1;
  int rails_per_node = 1; ///< network ports that a node's ranks share
  Transport transport = Transport::HostProxy;
  /// largest message on one rail, 1 B..1 TiB; longer messages are sent in pieces of this size
  double chunk_bytes = 0;
  std::vector<Protocol> protocols; ///< at least one
  /// The algorithms that the library offers for each collective. A collective without an entry has no times.
  std::map<Collective, std::vector<Algorithm>> algorithms;
  ComputeRate compute;
  double compute_slowdown = 1;       ///< >= 1; of the matmul while the collective runs
  double communication_slowdown = 1; ///< >= 1; of the collective while the matmul runs
  ConstantSpread uncertainty;        ///< each 0..kMaxConstantSpread
  /// 0..kMaxRelativeInterval; half-width of the 90 % interval of a collective's time, relative, if all constants are
  /// known
  double relative_interval = 0;
  std::string calibration; ///< what the constants were fitted to; empty: published constants only

  /// Errors: InvalidSpec naming the first field that is outside its legal range or not finite, a protocol or algorithm
  /// named twice, or an algorithm that cannot do its collective or has no protocol that it can use.
  [[nodiscard]] Result<void> validate() const;

  bool operator==(const Topology&) const = default;
};

/// The topology with a constant of all protocols multiplied by `factor` and clamped to its legal range.
[[nodiscard]] Topology with_scaled(Topology topology, const ProtocolConstant& constant, double factor);

} // namespace mc2::planner

#pragma GCC visibility pop

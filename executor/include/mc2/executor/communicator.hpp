#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "mc2/executor/buffer.hpp"
#include "mc2/planner/error.hpp"
#include "mc2/planner/fingerprint.hpp"
#include "mc2/planner/plan.hpp"

#pragma GCC visibility push(default)

namespace mc2::executor {

struct ExecuteOptions; // executor.hpp
struct StageList;      // how a backend sees a plan

/// What a run executes. Lanes follow the kind's order: kinds that compute first exchange products, those that
/// communicate first (all_gather_matmul, all_to_all_matmul) multiply the rows of A that arrived. The local part of a
/// kind that has one always comes first on the compute lane.
enum class RunMode : std::uint8_t {
  Fused,             ///< both lanes, every block's second lane after its first
  ComputeOnly,       ///< the matmuls of all blocks, back to back, local part included. Kinds that compute first leave
                     ///< C alone; the others write C from the rows that arrived last
  CommunicationOnly, ///< the collectives of all blocks, back to back. Kinds that compute first write C from whatever
                     ///< the last matmuls left, or leave it alone where fused runs sum in the matmul; the others bring
                     ///< rows of A and leave C alone
  Independent,       ///< both lanes at once, on separate data and without waiting for each other: measures contention.
                     ///< what C is made of then means nothing
  Serial, ///< the second lane, local part included, starts when the first has done all its blocks. Uncut, it is
          ///< what a program without mc2 does
  /// what Serial multiplies, alone: where all rows of A are there, some backends multiply them at once, others as
  /// ComputeOnly. C is written as by ComputeOnly, from the rows that the last Serial run brought
  SerialCompute,
};

/// How closely a run is timed.
enum class RunDetail : std::uint8_t {
  Makespan, ///< the whole; stage times may be zero. Costs nothing
  Stages,   ///< every stage too, which on some devices slows a Fused run
};

/// Start and end of one stage on one lane, relative to the run's start.
struct StageTime {
  std::chrono::nanoseconds start{0};
  std::chrono::nanoseconds end{0};
  bool operator==(const StageTime&) const = default;
};

/// When a rank's lanes worked. A stage of a variant with slices lasts from its first slice's start to its
/// last slice's end, so it starts on the second lane before it has ended on the first.
struct RankTimes {
  int rank = 0;
  std::vector<StageTime> compute;       ///< one per stage; all zero in CommunicationOnly
  std::vector<StageTime> communication; ///< one per stage; all zero in ComputeOnly
  StageTime local;                      ///< compute lane, before its stages: the rank's own shard, for kinds with a
                                        ///< local part; zero otherwise
};

/// One run: the slowest rank counts.
struct RunRecord {
  /// First start to last end, over the local ranks and the lanes that ran; a gathered A has its last copies after the
  /// stages.
  std::chrono::nanoseconds makespan{0};
  /// The caller's wait by the machine's clock: the makespan and every wake-up of a lane. Emulated links and virtual
  /// compute record stages on the modelled device's schedule; this shows how well the machine kept to it.
  std::chrono::nanoseconds wall{0};
  std::vector<RankTimes> ranks; ///< the local ones; backend cuda: all of them, also where other processes hold them
};

struct PrepareOptions {
  bool allow_independent = false; ///< also allocate what RunMode::Independent needs (a second set of intermediates)
};

/// How a fused run is handed to devices with streams.
enum class Submission : std::uint8_t {
  /// the whole pipeline at once, as it was captured. As Eager the first times that rebind() has given it certain
  /// matrices, and on a
  /// stream that is being captured: the caller's graph then holds the pipeline
  Graph,
  Eager, ///< kernel by kernel
};

/// Which of a rank's matrices other ranks reach while a plan runs, by the addresses that it was prepared with.
struct PeerReach {
  bool a = true;
  bool c = true;
};

/// A plan bound to buffers, ready to run any number of times.
class Prepared {
 public:
  virtual ~Prepared() = default;

  /// Runs once, behind what this plan has been enqueued, and returns when every local rank has finished; the record
  /// stays valid until the next run. Order: *collective* over processes. Threads: one run at a time per Communicator; a
  /// second thread gets SystemError. Throws: SystemError when a lane fails or the communicator's deadline passes; the
  /// communicator is then aborted and every later run throws too. Independent without PrepareOptions::allow_independent
  /// is a programming error.
  virtual const RunRecord& run(RunMode mode, RunDetail detail) = 0;
  const RunRecord& run(RunMode mode) { return run(mode, RunDetail::Stages); }

  /// Enqueues one Fused run of every local rank and returns without waiting for it. It starts when what the rank's
  /// stream holds now has ended, and what the stream is given later starts when the rank's part has ended. Allocates
  /// nothing, but for the third time that rebind() has given it the same matrices: it captures them then.
  /// @param streams  native handles (cudaStream_t), one per local rank, in the order of local_ranks()
  /// Order: *collective* over processes; streams that differ between two runs of a communicator are ordered by the
  /// caller, so that the runs do not overlap. Threads: as run().
  /// Errors: Unsupported (a backend without streams), InvalidSpec (not one stream per local rank, a stream of another
  /// device, or one that each thread has of its own). Throws SystemError, also for what another process failed in
  /// since. No deadline: a rank whose stream never comes to its part holds up the others. Lifetime: the destructor
  /// waits for what is enqueued. A graph of the caller's that holds a run must not be launched any more then.
  [[nodiscard]] virtual Result<void> enqueue(std::span<void* const> /*streams*/, Submission /*submission*/) {
    return Error{ErrorCode::Unsupported, "streams", "this backend has no streams; run() runs the plan"};
  }

  /// What rebind() must leave where it is.
  [[nodiscard]] virtual PeerReach peer_reach() const noexcept { return {}; }
  /// Lets the runs that follow work on other matrices of the same sizes, aligned as well as those of prepare(), and on
  /// other bags, which it leaves the runs to check. Runs that are enqueued already keep theirs. Host programs
  /// whose operands move from step to step need no other plan for that.
  /// @param buffers one per local rank, as prepare() takes them
  /// Order: between two runs, on all ranks or on none.
  /// Errors: Unsupported (a backend or variant that packs or registers what it works on), InvalidSpec naming rank and
  /// matrix, also for one that peers reach and that is not where it was. Threads: as run().
  [[nodiscard]] virtual Result<void> rebind(std::span<const RankBuffers> /*buffers*/) {
    return Error{ErrorCode::Unsupported, "buffers",
                 "this backend works on the buffers that the plan was prepared with; prepare it for others"};
  }

  /// What passes between the lanes, of each local rank in the order of local_ranks(), as the last run left it:
  ///   kinds that compute first  the rank's product [m, n], which C is a sum of, or rows of, after a Fused or
  ///                             CommunicationOnly run; where blocks are columns, block after block, each [m, b].
  ///                             Virtual compute never writes it: it keeps the reproducible random numbers that
  ///                             prepare() put there
  ///   the others                the rows of A that arrived, [m, k]; the rank's own are not copied and mean nothing
  /// It is what verify_exchange() checks the collective by. Empty for a backend without virtual compute, which needs
  /// no such check. In memory of this process; valid as long as *this.
  [[nodiscard]] virtual std::span<const std::span<const std::byte>> intermediates() const noexcept { return {}; }
};

/// Memory of a rank's device, owned.
class RankMemory {
 public:
  virtual ~RankMemory() = default;

  /// Addresses of the rank's device: to be read and written by this process only where
  /// Communicator::uses_host_memory().
  [[nodiscard]] virtual std::span<std::byte> bytes() noexcept = 0;
  /// Copies as many bytes as the span has, at most all; returns when done. Throws SystemError.
  virtual void upload(std::span<const std::byte> from) = 0;
  virtual void download(std::span<std::byte> to) const = 0;
};

/// The ranks that this process holds, with their lanes, memory and links. Made by Backend::open.
class Communicator {
 public:
  virtual ~Communicator() = default;

  [[nodiscard]] virtual int world_size() const noexcept = 0;
  [[nodiscard]] virtual std::span<const int> local_ranks() const noexcept = 0;
  [[nodiscard]] virtual const planner::Fingerprint& fingerprint() const noexcept = 0;
  /// Whether RankBuffers are ordinary memory of this process.
  [[nodiscard]] virtual bool uses_host_memory() const noexcept = 0;
  /// Memory of a local rank that RankBuffers may point to, aligned for every variant; must not outlive *this.
  /// Throws SystemError when there is not enough.
  [[nodiscard]] virtual std::unique_ptr<RankMemory> allocate(int rank, std::size_t byte_count) = 0;

  /// The first error that any process found before it came to prepare(), the same on every process, so that nobody
  /// waits there for one that does not come. A communicator that holds all ranks itself has only `own`. Order:
  /// *collective*. Throws SystemError.
  [[nodiscard]] virtual Result<void> share_error(const Result<void>& own) { return own; }

 protected:
  friend Result<std::unique_ptr<Prepared>> prepare(const planner::Plan& plan, std::span<const RankBuffers> buffers,
                                                   Communicator& communicator, const ExecuteOptions& options);

  /// Packs weights, builds kernels and allocates everything, so that run() allocates nothing. Called by
  /// executor::prepare() alone, with stages that are legal.
  /// @param buffers one per local rank, in the order of local_ranks(); must outlive the result, as must *this
  /// Errors: InvalidSpec (wrong buffer size, illegal bags, counts that are illegal or that two ranks do not agree on,
  /// naming both, overlapping C, world size differs), UnknownName (variant), Unsupported (dtype, operator or memory of
  /// this machine). Throws SystemError when memory or a library fails, and when an earlier run has aborted the
  /// communicator.
  [[nodiscard]] virtual Result<std::unique_ptr<Prepared>> prepare_stages(const StageList& stages,
                                                                         const planner::Variant& variant,
                                                                         std::span<const RankBuffers> buffers,
                                                                         const PrepareOptions& options) = 0;
};

} // namespace mc2::executor

#pragma GCC visibility pop

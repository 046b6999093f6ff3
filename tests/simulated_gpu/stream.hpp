#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace mc2::simulated {

using Work = std::function<void()>;
using Clock = std::chrono::steady_clock;
class Stream;

struct Node {
  cudaGraphNodeType type;
  Work work;
  std::vector<std::size_t> after; ///< nodes that must end before this one begins
  std::size_t lane;               ///< the stream that this node was captured on
};

struct Graph {
  std::vector<Node> nodes;
  std::size_t lane_count = 0;
};

/// One stream capture. capture_mutex() guards it, and which streams are its members.
struct Capture {
  struct Member {
    std::size_t lane;
    std::vector<std::size_t> tips; ///< nodes that must end before this stream's next node begins
  };
  Graph graph;
  Stream* origin = nullptr;
  std::map<Stream*, Member> members;
  bool is_active = true;
  bool is_invalid = false;

  void join(Stream& stream, const std::vector<std::size_t>& tips);
  void add(Stream& stream, cudaGraphNodeType type, Work work);
  /// Whether all nodes end before the origin's last node does, as cudaStreamEndCapture() requires.
  [[nodiscard]] bool is_joined() const;
};

std::mutex& capture_mutex();

/// A place in a stream, and the time when the stream reached it.
class Record {
 public:
  void complete();
  void wait();
  [[nodiscard]] bool is_complete() const;
  [[nodiscard]] Clock::time_point time() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool is_complete_ = false;
  Clock::time_point time_;
};

/// A CUDA event. capture_mutex() guards it.
struct Event {
  int device;
  std::shared_ptr<Record> last;     ///< null before the first record
  std::shared_ptr<Capture> capture; ///< set if the last record was captured into a graph
  std::vector<std::size_t> tips;    ///< the captured record's place in that graph
};

/// A CUDA stream: a thread that does its work in order. The thread is detached; one that is still busy, or was never
/// closed, ends with the process.
class Stream : public std::enable_shared_from_this<Stream> {
 public:
  static std::shared_ptr<Stream> open(int device, bool is_blocking);
  void push(Work work);
  void drain();
  /// Lets the thread end after it has done all its work.
  void close();
  [[nodiscard]] bool is_idle() const;
  /// How many pieces of work push() has taken.
  [[nodiscard]] std::uint64_t issued() const;
  /// Waits until `count` pieces of work are done.
  void wait(std::uint64_t count);

  const int device;
  const bool is_blocking; ///< synchronises with the legacy default stream
  std::shared_ptr<Capture> capture;

  Stream(int device_number, bool blocks) : device(device_number), is_blocking(blocks) {}

 private:
  void serve();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> queue_;
  std::uint64_t issued_ = 0, finished_ = 0;
  bool is_closed_ = false;
};

/// An instantiated graph.
class Executable {
 public:
  explicit Executable(Graph graph) : graph_(std::move(graph)) {}
  /// Runs the graph once. Concurrent calls run one after the other.
  void run();

 private:
  Graph graph_;
  std::mutex turn_;
};

/// The stream of a handle. A default handle means the current device's default stream.
[[nodiscard]] std::shared_ptr<Stream> stream_of(cudaStream_t handle);
[[nodiscard]] std::shared_ptr<Event>& event_of(cudaEvent_t handle);
/// Gives work to a stream or, while the stream is captured, adds it to the graph as a node.
[[nodiscard]] cudaError_t submit(cudaStream_t handle, cudaGraphNodeType type, Work work);
void drain_device(int device);

} // namespace mc2::simulated

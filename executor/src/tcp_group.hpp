#pragma once

#include "process_group.hpp"

namespace mc2::executor {

/// Checks an address. Errors: InvalidSpec unless it is host:port.
[[nodiscard]] Result<void> check_rank_zero(const std::string& address);

/// A group of processes on several hosts, through TCP. Each process is connected with rank 0, which passes messages on
/// to the others. A rank has failed if its process ends, or if nothing is heard of it for some time, because its
/// process is stopped or its link cut. Messages are neither encrypted nor signed: for networks whose hosts trust one
/// another.
class TcpGroup final : public ProcessGroup {
 public:
  /// As open_process_group(); errors name hosts beside ranks. Rank 0 waits at the place's address for processes with
  /// the same key.
  TcpGroup(const ProcessPlace& place, int world_size, std::chrono::milliseconds deadline);
  ~TcpGroup() override;

  [[nodiscard]] std::vector<std::string> all_gather(std::string_view own) override;
  void leave() override;
  void fail(std::string_view why) noexcept override;
  [[nodiscard]] std::optional<std::string> failure() const override;
  [[nodiscard]] std::optional<std::string> departure() const override;
  [[nodiscard]] std::uint32_t* abort_word() const noexcept override;

 private:
  class Network;
  std::unique_ptr<Network> network_;
};

} // namespace mc2::executor

#pragma once

#include "process_group.hpp"

namespace mc2::executor {

/// Errors: InvalidSpec for what is no host:port.
[[nodiscard]] Result<void> check_rank_zero(const std::string& address);

/// Processes of several hosts, by TCP: each is connected with rank 0, which passes on what it hears as long as it is
/// there. A rank whose process ends, and one of which nothing is heard any more, be it stopped or its link cut, has
/// failed. What is sent is neither encrypted nor signed: for networks whose hosts trust one another.
class TcpGroup final : public ProcessGroup {
 public:
  /// As open_process_group(), naming hosts beside ranks. Rank 0 waits at the place's address for processes with its
  /// key.
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

#pragma once

#include <string>

#include "process_group.hpp"

namespace mc2::executor {

/// A group of processes of one machine, through shared memory. The memory's name is removed once all have come.
class SharedMemoryGroup final : public ProcessGroup {
 public:
  /// As open_process_group().
  SharedMemoryGroup(const ProcessPlace& place, int world_size, std::chrono::milliseconds deadline);
  ~SharedMemoryGroup() override;

  [[nodiscard]] std::vector<std::string> all_gather(std::string_view own) override;
  void fail(std::string_view why) noexcept override;
  [[nodiscard]] std::optional<std::string> failure() const override;
  [[nodiscard]] std::optional<std::string> departure() const override;
  [[nodiscard]] std::uint32_t* abort_word() const noexcept override;

 private:
  struct Shared;

  void create(const std::string& name);
  void join(const std::string& name, std::chrono::steady_clock::time_point end, const Number& number);
  void meet();
  void sign_in();
  [[nodiscard]] std::string missing() const;
  [[nodiscard]] std::optional<std::string> disagreement() const;
  void wait_for_all(std::chrono::steady_clock::time_point end, const Number& number);
  void exchange_round(std::string_view own, std::vector<std::string>& all);
  void wait_for_round(int rank, std::uint64_t round) const;
  [[nodiscard]] bool has_ended(int rank) const;
  void tell(std::string_view what) const noexcept;

  std::string key_;
  std::chrono::milliseconds deadline_;
  std::uint64_t round_ = 0;
  Shared* shared_ = nullptr;
};

} // namespace mc2::executor

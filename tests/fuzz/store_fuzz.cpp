#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "mc2/store/store.hpp"
#include "store/examples.hpp"

namespace {

using namespace mc2;

/// A store in memory-backed files, and what is in it.
class Sample {
 public:
  Sample() {
    char name[] = "/dev/shm/mc2-fuzz-XXXXXX";
    if (mkdtemp(name) == nullptr) std::abort();
    folder_ = name;
    auto store = store::Store::open(path(), store::OpenMode::ReadWrite).value();
    const auto now = store::examples::kNow;
    for (const std::int64_t m : {512, 1024}) {
      digests_.push_back(store.put_plan(store::examples::plan(m), "tuned", now).value());
      documents_.push_back(store.find_plan(digests_.back()).value().document);
    }
    (void)store.put_model(store::examples::model(), now).value();
    if (!store.append_samples(store::examples::profile().op, store::examples::fingerprint(), store::examples::profile().samples, now))
      std::abort();
    std::ifstream stream(path(), std::ios::binary);
    image_.assign(std::istreambuf_iterator<char>(stream), {});
  }
  ~Sample() { std::filesystem::remove_all(folder_); }
  Sample(const Sample&) = delete;
  Sample& operator=(const Sample&) = delete;

  [[nodiscard]] std::filesystem::path path() const { return folder_ / "store.db"; }
  [[nodiscard]] const std::vector<std::string>& digests() const { return digests_; }
  /// Whether a document is one that was kept.
  [[nodiscard]] bool has(const std::string& document) const {
    for (const std::string& known : documents_)
      if (known == document) return true;
    return false;
  }

  /// Leaves a file as it was but for the edits: three bytes of place and one of value each.
  void damage(std::span<const std::uint8_t> edits) const {
    std::vector<char> bytes = image_;
    for (; edits.size() >= 4; edits = edits.subspan(4)) {
      const std::size_t place = edits[0] | std::size_t{edits[1]} << 8 | std::size_t{edits[2]} << 16;
      if (place < bytes.size()) bytes[place] = static_cast<char>(edits[3]);
      if (place >= std::size_t{0xff} << 16) bytes.resize(bytes.size() * edits[3] / 255); // cut short
    }
    std::filesystem::remove(folder_ / "store.db-journal");
    std::ofstream(path(), std::ios::binary | std::ios::trunc).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }

 private:
  std::filesystem::path folder_;
  std::vector<char> image_;
  std::vector<std::string> digests_, documents_;
};

/// A damaged plan is a miss, never another plan.
void read_all(const store::Store& store, const Sample& sample) {
  for (const std::string& digest : sample.digests())
    if (const auto plan = store.find_plan(digest); plan && !sample.has(plan.value().document)) std::abort();
  if (const auto plans = store.list_plans())
    for (const auto& plan : plans.value())
      if (!sample.has(plan.document)) std::abort();
  (void)store.list_models(store::ListFilter{});
  (void)store.list_fingerprints();
  (void)store.find_profile(store::examples::profile().op, store::examples::fingerprint());
  (void)store.check();
  (void)store.export_json();
}

} // namespace

/// Opens a store that was changed where the bytes say, reads all of it, and writes to it.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Sample sample;
  if (size == 0) return 0;
  const bool is_written = data[0] % 2 == 1;
  sample.damage({data + 1, size - 1});
  try {
    auto store = store::Store::open(sample.path(), is_written ? store::OpenMode::ReadWrite : store::OpenMode::ReadOnly);
    if (!store) return 0;
    read_all(store.value(), sample);
    if (!is_written || !store.value().put_plan(store::examples::plan(512), "tuned", store::examples::kNow)) return 0;
    read_all(store.value(), sample);
  } catch (const planner::SystemError&) { // what SQLite cannot repair it may say so
  }
  return 0;
}

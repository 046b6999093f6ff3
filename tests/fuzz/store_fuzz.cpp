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

/// A store in memory-backed files, and the plan that it holds.
class Sample {
 public:
  Sample() {
    char name[] = "/dev/shm/mc2-fuzz-XXXXXX";
    if (mkdtemp(name) == nullptr) std::abort();
    folder_ = name;
    auto store = store::Store::open(path(), store::OpenMode::ReadWrite).value();
    const auto now = store::examples::kNow;
    digest_ = store.put_plan(store::examples::plan(), "tuned", now).value();
    document_ = store.find_plan(digest_).value().document;
    (void)store.put_model(store::examples::model(), now).value();
    if (!store.append_samples(store::examples::profile().op, store::examples::fingerprint(),
                              store::examples::profile().samples, now))
      std::abort();
    std::ifstream stream(path(), std::ios::binary);
    image_.assign(std::istreambuf_iterator<char>(stream), {});
  }
  ~Sample() { std::filesystem::remove_all(folder_); }
  Sample(const Sample&) = delete;
  Sample& operator=(const Sample&) = delete;

  [[nodiscard]] std::filesystem::path path() const { return folder_ / "store.db"; }
  /// The digest of the plan that was kept.
  [[nodiscard]] const std::string& digest() const { return digest_; }
  [[nodiscard]] const std::string& document() const { return document_; }

  /// Writes the store's file as it was, with the edits applied. An edit has three bytes of place and one of value.
  void damage(std::span<const std::uint8_t> edits) const {
    std::vector<char> bytes = image_;
    for (; edits.size() >= 4; edits = edits.subspan(4)) {
      const std::size_t place = edits[0] | std::size_t{edits[1]} << 8 | std::size_t{edits[2]} << 16;
      if (place < bytes.size()) bytes[place] = static_cast<char>(edits[3]);
      if (place >= std::size_t{0xff} << 16) bytes.resize(bytes.size() * edits[3] / 255); // cut short
    }
    std::filesystem::remove(folder_ / "store.db-journal");
    std::ofstream(path(), std::ios::binary | std::ios::trunc)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }

 private:
  std::filesystem::path folder_;
  std::vector<char> image_;
  std::string digest_, document_;
};

/// Aborts unless a damaged plan is a miss: it must never be another plan.
void require(const mc2::Result<store::StoredPlan>& plan, const Sample& sample) {
  if (plan && plan.value().document != sample.document()) std::abort();
}

/// The first byte chooses one of these steps, so that an input does not pay for all of them.
constexpr int kStepCount = 6;
constexpr int kWrite = 0;

void use(store::Store& store, int step, const Sample& sample) {
  switch (step) {
    case kWrite: {
      if (!store.put_plan(store::examples::plan(), "tuned", store::examples::kNow)) return;
      return require(store.find_plan(sample.digest()), sample);
    }
    case 1: return require(store.find_plan(sample.digest()), sample);
    case 2: {
      if (const auto plans = store.list_plans())
        for (const auto& plan : plans.value()) require(plan, sample);
      (void)store.list_models(store::ListFilter{});
      (void)store.list_fingerprints();
      return;
    }
    case 3: return (void)store.check();
    case 4: return (void)store.export_json();
    default: return (void)store.find_profile(store::examples::profile().op, store::examples::fingerprint());
  }
}

} // namespace

/// Opens a store that was changed where the bytes say, and uses it.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Sample sample;
  if (size == 0) return 0;
  const int step = data[0] % kStepCount;
  sample.damage({data + 1, size - 1});
  try {
    auto store =
        store::Store::open(sample.path(), step == kWrite ? store::OpenMode::ReadWrite : store::OpenMode::ReadOnly);
    if (store) use(store.value(), step, sample);
  } catch (const mc2::SystemError&) { // SQLite may refuse what it cannot repair
  }
  return 0;
}

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

/// Runs every file of a corpus through a fuzz target: whole, cut to prefixes of growing length, and with one byte
/// changed. This is what CI runs instead of a fuzzer.
int main(int argument_count, char** arguments) {
  std::size_t count = 0;
  const auto run = [&](const std::vector<std::uint8_t>& bytes, std::size_t size) {
    LLVMFuzzerTestOneInput(bytes.data(), size);
    ++count;
  };
  for (int i = 1; i < argument_count; ++i) {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(arguments[i])) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    for (const auto& file : files) {
      std::ifstream stream(file, std::ios::binary);
      std::vector<std::uint8_t> bytes{std::istreambuf_iterator<char>(stream), {}};
      run(bytes, bytes.size());
      for (std::size_t size = 0; size < bytes.size(); size = size * 5 / 4 + 1) run(bytes, size);
      for (std::size_t at = 0; at < bytes.size(); at += 1 + bytes.size() / 64) {
        bytes[at] = static_cast<std::uint8_t>(bytes[at] ^ 0x2b);
        run(bytes, bytes.size());
        bytes[at] = static_cast<std::uint8_t>(bytes[at] ^ 0x2b);
      }
    }
  }
  std::printf("%zu inputs\n", count);
  return count > 0 ? 0 : 1;
}

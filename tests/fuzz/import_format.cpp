#include <string_view>

/// Which format import_fuzz.cpp reads the bytes as.
extern const std::string_view kFuzzedFormat;
const std::string_view kFuzzedFormat = MC2_FUZZ_FORMAT;

#include <string_view>

/// The format as which import_fuzz.cpp reads the bytes.
extern const std::string_view kFuzzedFormat;
const std::string_view kFuzzedFormat = MC2_FUZZ_FORMAT;

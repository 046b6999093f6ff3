#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "mc2/store/answer.hpp"
#include "mc2/store/codec.hpp"
#include "mc2/store/llm_config.hpp"

namespace {

using namespace mc2;

/// Aborts unless a document that decode accepts is written in one form only, which reads back as the same value.
template <typename Value>
void check(mc2::Result<Value> (*decode)(std::string_view), std::string_view json) {
  const auto value = decode(json);
  if (!value) return;
  const std::string document = store::encode(value.value());
  const auto again = decode(document);
  if (!again || !(again.value() == value.value()) || store::encode(again.value()) != document) std::abort();
  if (store::pretty(document).empty()) std::abort();
}

/// Aborts unless a language model that was read can be divided among any ranks, or is refused with a reason.
[[maybe_unused]] void check_llm(std::string_view json) { // not used with MC2_FUZZ_PLANS
  const auto config = store::decode_llm_config(json, "fuzzed");
  if (!config) return;
  if (!config.value().validate() || config.value().text().empty()) std::abort();
  for (const auto& layer : config.value().layers())
    for (const auto kind : layer.kinds())
      for (const int ranks : {2, 3, 8, 1024}) {
        const auto op = layer.op(kind, layer.rows_of(4096, kind, ranks), ranks);
        if (op ? !op.value().validate() : op.error().text().empty()) std::abort();
      }
}

} // namespace

/// Reads all bytes but the first as the kind of document that the first byte names; with MC2_FUZZ_PLANS, all bytes as a
/// plan.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
#ifdef MC2_FUZZ_PLANS
  check(&store::decode_plan, bytes);
#else
  if (size == 0) return 0;
  const std::string_view json = bytes.substr(1);
  switch (bytes.front()) {
    case 'p': check(&store::decode_plan, json); break;
    case 'm': check(&store::decode_model, json); break;
    case 's': check(&store::decode_profile, json); break;
    case 'f': check(&store::decode_fingerprint, json); break;
    case 'r': check(&store::decode_request, json); break;
    case 't': check(&store::decode_topology, json); break;
    case 'a': (void)store::decode_answer(json); break;
    case 'l': check_llm(json); break;
    case 'w': (void)store::decode_what_if(json); break;
    default: (void)store::decode_batch(json); break;
  }
#endif
  return 0;
}

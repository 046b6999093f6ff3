#include <nvtx3/nvToolsExt.h>

#include "named_range.hpp"

namespace mc2::executor {

NamedRange::NamedRange(const char* name, std::int64_t number) noexcept {
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name;
  attributes.payloadType = NVTX_PAYLOAD_TYPE_INT64;
  attributes.payload.llValue = number;
  nvtxRangePushEx(&attributes);
}

NamedRange::~NamedRange() { nvtxRangePop(); }

void NamedRange::set_up() noexcept {
  // NVTX allows several threads to enter its set-up, but one then reads data that another is writing.
  static const bool is_set_up = (nvtxInitialize(nullptr), true);
  static_cast<void>(is_set_up);
}

} // namespace mc2::executor

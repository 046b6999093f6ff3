#include "backends/host/transport.hpp"

namespace mc2::executor::host {

std::unique_ptr<Transport> make_transport(const LinkSpec& link, int world_size) {
  switch (link.mode) {
    case LinkSpec::Mode::SharedMemory: return make_shared_memory_transport();
    case LinkSpec::Mode::Emulated: return make_emulated_transport(link, world_size);
    case LinkSpec::Mode::Tcp: return make_tcp_transport(link, world_size);
  }
  MC2_CHECK(false, "a link mode without a transport");
  return nullptr;
}

} // namespace mc2::executor::host

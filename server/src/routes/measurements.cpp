#include "mc2/store/codec.hpp"
#include "routes/listing.hpp"
#include "routes/routes.hpp"

namespace mc2::server {

Result<Response> list_measurements(Context& context, const Call& call) {
  return list_documents(context, call, "mc2.measurement_list/1", ListOfStore(&store::Store::list_measurements));
}

Result<Response> add_measurement(Context& context, const Call& call) {
  MC2_TRY(call.query.require_all_known());
  MC2_ASSIGN(const auto record, store::decode_measurement(call.request.body));
  const std::string digest = store::digest(store::encode(record));
  MC2_ASSIGN(const auto kept, context.store.write([&](store::Store& store) -> Result<std::string> {
    if (store.find_measurement(digest)) return digest; // a client may send a race again after a lost connection
    return store.add_measurement(record.fingerprint, record.measurement, context.surroundings.utc_now());
  }));
  return kept_response("/v1/measurements/", kept);
}

} // namespace mc2::server

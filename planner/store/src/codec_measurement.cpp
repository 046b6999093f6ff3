#include <utility>

#include "codec_parts.hpp"

namespace mc2::store {
namespace {

void read_times(const Fields& fields, Measurement& measurement) {
  measurement.fused_us = fields["fused_us"].number();
  measurement.serial_us = fields["serial_us"].number();
  measurement.compute_us = fields["compute_us"].number();
  measurement.communication_us = fields["communication_us"].number();
  measurement.benefit = fields["benefit"].number();
  measurement.benefit_low = fields["benefit_low"].number();
  measurement.benefit_high = fields["benefit_high"].number();
  measurement.predicted_us = fields["predicted_us"].number();
  measurement.pair_count = fields["pair_count"].small_integer(0);
  if (fields.has("predicted_compute_us")) measurement.predicted_compute_us = fields["predicted_compute_us"].number();
  if (fields.has("predicted_communication_us"))
    measurement.predicted_communication_us = fields["predicted_communication_us"].number();
}

Result<void> validate(const Measurement& measurement) {
  for (const auto& [field, us] : {std::pair{"fused_us", measurement.fused_us},
                                  {"serial_us", measurement.serial_us},
                                  {"compute_us", measurement.compute_us},
                                  {"communication_us", measurement.communication_us},
                                  {"predicted_us", measurement.predicted_us},
                                  {"predicted_compute_us", measurement.predicted_compute_us},
                                  {"predicted_communication_us", measurement.predicted_communication_us}})
    MC2_TRY(planner::validate_time(field, us));
  if ((measurement.predicted_compute_us > 0) != (measurement.predicted_communication_us > 0))
    return Error{ErrorCode::InvalidSpec, "predicted_compute_us", "needs predicted_communication_us, and the reverse"};
  return planner::validate_interval("benefit_low", measurement.benefit_low, measurement.benefit_high);
}

} // namespace

Json write_measurement(const MeasurementRecord& record) {
  const Measurement& measurement = record.measurement;
  Json result = {{"benefit", finite(measurement.benefit)},
                 {"benefit_high", finite(measurement.benefit_high)},
                 {"benefit_low", finite(measurement.benefit_low)},
                 {"communication_us", finite(measurement.communication_us)},
                 {"compute_us", finite(measurement.compute_us)},
                 {"cut", write_cut(measurement.cut, planner::cut_axis(measurement.op))},
                 {"fingerprint", write_fingerprint(record.fingerprint)},
                 {"fused_us", finite(measurement.fused_us)},
                 {"op", write_op(measurement.op)},
                 {"pair_count", measurement.pair_count},
                 {"predicted_us", finite(measurement.predicted_us)},
                 {"schema", schema_name("measurement")},
                 {"serial_us", finite(measurement.serial_us)},
                 {"variant", write_variant(measurement.variant)}};
  if (measurement.predicted_compute_us > 0) {
    result["predicted_communication_us"] = finite(measurement.predicted_communication_us);
    result["predicted_compute_us"] = finite(measurement.predicted_compute_us);
  }
  return result;
}

template <>
MeasurementRecord read_document<MeasurementRecord>(const Node& node) {
  check_schema(node, "measurement");
  const Fields fields(node,
                      {"benefit", "benefit_high", "benefit_low", "communication_us", "compute_us", "cut", "fingerprint",
                       "fused_us", "op", "pair_count", "predicted_us", "schema", "serial_us", "variant"},
                      {"predicted_communication_us", "predicted_compute_us"});
  MeasurementRecord record;
  record.measurement.op = read_op(fields["op"]);
  record.measurement.cut = read_cut(fields["cut"], record.measurement.op);
  record.measurement.variant = read_variant(fields["variant"]);
  record.fingerprint = read_fingerprint(fields["fingerprint"]);
  read_times(fields, record.measurement);
  if (node.is_ok()) node.check(validate(record.measurement));
  return record;
}

std::string encode(const MeasurementRecord& record) { return dump(write_measurement(record)); }

} // namespace mc2::store

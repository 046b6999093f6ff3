#include <utility>

#include "codec_parts.hpp"

namespace mc2::store {

Result<void> Measurement::validate() const {
  MC2_TRY(planner::validate_cut_times(*this));
  for (const auto& [field, us] : {std::pair{"predicted_us", predicted_us},
                                  {"predicted_compute_us", predicted_compute_us},
                                  {"predicted_communication_us", predicted_communication_us},
                                  {"predicted_serial_us", predicted_serial_us}})
    MC2_TRY(planner::validate_known_time(field, us));
  if ((predicted_compute_us > 0) != (predicted_communication_us > 0))
    return Error{ErrorCode::InvalidSpec, "predicted_compute_us", "needs predicted_communication_us, and the reverse"};
  if (predicted_serial_us > 0 && !(predicted_compute_us > 0))
    return Error{ErrorCode::InvalidSpec, "predicted_serial_us", "needs predicted_compute_us"};
  if (run_count < 1)
    return Error{ErrorCode::InvalidSpec, "pair_count", "is " + std::to_string(run_count) + "; must be at least 1"};
  return planner::validate_benefit(benefit, benefit_low, benefit_high);
}

template <>
inline constexpr auto kFields<Measurement> =
    std::tuple(field("op", &Measurement::op), field("cut", &Measurement::cut), field("variant", &Measurement::variant),
               field("fused_us", &Measurement::fused_us), field("serial_us", &Measurement::serial_us),
               field("compute_us", &Measurement::compute_us), field("communication_us", &Measurement::communication_us),
               field("benefit", &Measurement::benefit), field("benefit_low", &Measurement::benefit_low),
               field("benefit_high", &Measurement::benefit_high), field("predicted_us", &Measurement::predicted_us),
               field("pair_count", &Measurement::run_count, at_least(0)),
               field_if_set("predicted_compute_us", &Measurement::predicted_compute_us),
               field_if_set("predicted_communication_us", &Measurement::predicted_communication_us),
               field_if_set("predicted_serial_us", &Measurement::predicted_serial_us),
               field_if_set("relative_error", &Measurement::relative_error),
               field_if_set("compute_blocks_us", &Measurement::compute_blocks_us),
               field_if_set("communication_blocks_us", &Measurement::communication_blocks_us));

/// One object with the fields of the measurement and the machine.
template <>
inline constexpr auto kFields<MeasurementRecord> =
    std::tuple_cat(std::tuple(document("measurement")), within(&MeasurementRecord::measurement, kFields<Measurement>),
                   std::tuple(field("fingerprint", &MeasurementRecord::fingerprint, Texts{})),
                   std::tuple(checked([](const MeasurementRecord& record) -> Result<void> {
                     MC2_TRY(check_cut(record.measurement.cut, record.measurement.op));
                     return record.measurement.validate();
                   })));

template <>
MeasurementRecord read_document(const Node& node) {
  return read_described<MeasurementRecord>(node);
}

std::string encode(const MeasurementRecord& record) { return dump(write_described(record)); }

} // namespace mc2::store

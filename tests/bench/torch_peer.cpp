#include "torch_peer.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

namespace mc2::cli {
namespace {

using nlohmann::json;

constexpr std::size_t kTailBytes = 2000;
constexpr std::size_t kQuotedBytes = 80;

Error malformed(const std::string& line) {
  return {ErrorCode::Malformed, "torch",
          "answered what is none of its answers: '" + line.substr(0, kQuotedBytes) + "'"};
}

/// Errors: Unsupported with the program's own reason, Malformed, as ChildProcess::read_line.
Result<json> read_answer(ChildProcess& child, std::chrono::milliseconds patience) {
  MC2_ASSIGN(const auto line, child.read_line(patience));
  json answer = json::parse(line, nullptr, false);
  if (!answer.is_object()) return malformed(line);
  if (!answer.contains("error")) return answer;
  if (!answer["error"].is_string()) return malformed(line);
  return Error{ErrorCode::Unsupported, "torch", answer["error"].get<std::string>()};
}

Result<json> ask(ChildProcess& child, const json& request, std::chrono::milliseconds patience) {
  MC2_TRY(child.write_line(request.dump()));
  return read_answer(child, patience);
}

std::string plain_text(const json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

Result<TorchForm> read_form(const std::string& name, const json& value) {
  if (!value.is_object()) return malformed(value.dump());
  TorchForm form{name, "", 0};
  if (value.contains("failure")) {
    form.failure = plain_text(value["failure"]);
    if (form.failure.empty()) return malformed(value.dump());
    return form;
  }
  if (!value.contains("error_ratio") || !value["error_ratio"].is_number()) return malformed(value.dump());
  form.error_ratio = value["error_ratio"];
  return form;
}

Result<std::vector<double>> read_times(const json& value, int count) {
  if (!value.is_array() || std::ssize(value) != count) return malformed(value.dump());
  std::vector<double> times;
  for (const auto& time : value) {
    if (!time.is_number() || !(time.get<double>() > 0) || !std::isfinite(time.get<double>()))
      return malformed(value.dump());
    times.push_back(time);
  }
  return times;
}

} // namespace

Error TorchPeer::with_last_words(const Error& error) const {
  const std::string words = child_ ? child_->error_tail(kTailBytes) : "";
  return {error.code, "torch", error.message + (words.empty() ? "" : "; it wrote:\n" + words)};
}

Result<std::unique_ptr<TorchPeer>> TorchPeer::start(const std::string& python, int rank_count,
                                                    const TorchPatience& patience) {
  MC2_ASSIGN(auto directory, PrivateDirectory::with_room_for(torch_peer_program().size()));
  std::unique_ptr<TorchPeer> peer(new TorchPeer(std::move(directory), patience));
  const auto file = peer->program_directory_.path() / "torch_peer.py";
  write_file(file, std::string(torch_peer_program()));
  MC2_ASSIGN(peer->child_, ChildProcess::start({python, file.string(), std::to_string(rank_count)}));
  const auto hello = read_answer(*peer->child_, patience.start);
  if (!hello) return peer->with_last_words(hello.error());
  if (!hello.value().contains("torch")) return peer->with_last_words(malformed(hello.value().dump()));
  for (const auto& [name, value] : hello.value().items()) peer->software_[name] = plain_text(value);
  return peer;
}

Result<std::vector<TorchForm>> TorchPeer::open_case(const planner::OpSpec& op, const std::filesystem::path& directory) {
  const auto answer = ask(*child_,
                          {{"do", "open"},
                           {"op", planner::to_string(op.kind)},
                           {"dtype", planner::to_string(op.dtype)},
                           {"m", op.m},
                           {"n", op.n},
                           {"k", op.k},
                           {"directory", directory.string()}},
                          patience_.answer);
  if (!answer) return with_last_words(answer.error());
  if (!answer.value().contains("forms") || !answer.value()["forms"].is_object())
    return with_last_words(malformed(answer.value().dump()));
  std::vector<TorchForm> forms;
  for (const auto& [name, value] : answer.value()["forms"].items()) {
    auto form = read_form(name, value);
    if (!form) return with_last_words(form.error());
    forms.push_back(std::move(form).value());
  }
  return forms;
}

Result<std::map<std::string, std::vector<double>>> TorchPeer::time_forms(int repetition_count) {
  const auto answer = ask(*child_, {{"do", "time"}, {"repetitions", repetition_count}}, patience_.answer);
  if (!answer) return with_last_words(answer.error());
  if (!answer.value().contains("times_us") || !answer.value()["times_us"].is_object())
    return with_last_words(malformed(answer.value().dump()));
  std::map<std::string, std::vector<double>> times;
  for (const auto& [name, value] : answer.value()["times_us"].items()) {
    auto read = read_times(value, repetition_count);
    if (!read) return with_last_words(read.error());
    times[name] = std::move(read).value();
  }
  return times;
}

Result<void> TorchPeer::close_case() {
  const auto answer = ask(*child_, {{"do", "close"}}, patience_.answer);
  if (!answer) return with_last_words(answer.error());
  return {};
}

} // namespace mc2::cli

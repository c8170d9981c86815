#include "simulate/cluster_spec.h"

#include <charconv>

namespace saccade::simulate {
namespace {

// The count before a role; 1 where there is none.
Result<int> take_count(std::string_view whole, std::string_view& rest, std::string_view role) {
  int count = 1;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), count);
  if (error == std::errc::result_out_of_range || count < 1 || count > ClusterSpec::kMost)
    return fail(ErrorCode::kInvalid,
                "cluster \"{}\": the number of {} is \"{}\", 1 to {} are possible",
                whole.substr(0, 40), role, rest.substr(0, 12), ClusterSpec::kMost);
  if (error == std::errc()) rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  return count;
}

}  // namespace

std::string ClusterSpec::text() const {
  return encoders > 0 ? fmt::format("{}E{}PD", encoders, pds) : fmt::format("{}PD", pds);
}

Result<ClusterSpec> parse_cluster_spec(std::string_view text) {
  const auto wrong = [&] {
    return fail(ErrorCode::kInvalid,
                "cluster \"{}\" is not of the form [nE]mPD: 2E1PD is two encoders and one machine "
                "that prefills and decodes",
                text.substr(0, 40));
  };
  ClusterSpec spec;
  std::string_view rest = text;
  if (const std::size_t at = rest.find('E'); at != std::string_view::npos) {
    TRY(spec.encoders, take_count(text, rest, "encoders"));
    if (!rest.starts_with('E')) return wrong();
    rest.remove_prefix(1);
  }
  TRY(spec.pds, take_count(text, rest, "PDs"));
  if (rest != "PD") return wrong();
  return spec;
}

}  // namespace saccade::simulate

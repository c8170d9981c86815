// What a request is predicted to ask of a server, from a scan of its body alone.
#pragma once

#include <string_view>

#include "cluster/proxy/body_scan.h"
#include "cluster/proxy/pd_table.h"

namespace saccade::cluster {

// `session`: what the client's headers call its session; empty: the body says.
PdRequest predicted_request(const ScannedBody& body, std::string_view session);

}  // namespace saccade::cluster

#include "serve/assembly/cluster_store.h"

#include <map>
#include <utility>

#include "base/log.h"
#include "cluster/access.h"
#include "cluster/redis/redis_link.h"
#include "cluster/store/hex.h"
#include "net/shown_host.h"

namespace saccade::serve {
namespace {

constexpr std::string_view kUnix = "unix:";

bool is_wildcard(std::string_view host) {
  return host == "0.0.0.0" || host == "::" || host == "[::]" || host == "*" || host.empty();
}

// Where others ask for encodes: over a network if at all.
std::string encodes_at(const ClusterSettings& settings, const std::vector<std::string>& listened) {
  for (const std::string& address : listened) {
    if (address.starts_with(kUnix)) continue;
    const std::size_t colon = address.rfind(':');
    const std::string host =
        settings.advertise.empty() ? address.substr(0, colon) : net::shown_host(settings.advertise);
    return host + address.substr(colon);
  }
  return listened.empty() ? "" : listened.front();
}

}  // namespace

cluster::RowFormat format_of(DType type) {
  switch (type) {
    case DType::kBf16:
      return {2, 0x7f80};
    case DType::kF16:
      return {2, 0x7c00};
    default:
      return {4, 0x7f800000};
  }
}

Result<void> check_registry(const ServeSettings& settings) {
  const ClusterSettings& cluster = settings.cluster;
  if (cluster.registry.empty()) {
    for (const auto& [flag, given] :
         {std::pair("--advertise", !cluster.advertise.empty()),
          {"--registry-password-file", !cluster.registry_password_file.empty()}}) {
      if (given) return fail(ErrorCode::kInvalid, "{} is given without --registry", flag);
    }
    return {};
  }
  TRY_DO(cluster::read_store_address(cluster.registry, cluster.registry_password_file));
  if (!cluster.advertise.empty()) {
    if (is_wildcard(cluster.advertise) || cluster.advertise.size() > 255 ||
        cluster.advertise.find_first_of(" /@") != std::string::npos)
      return fail(ErrorCode::kInvalid, "--advertise {:.80}: the name or address of this machine",
                  cluster.advertise);
    return {};
  }
  const auto nowhere = [](std::string_view flag, std::string_view address) {
    return fail(ErrorCode::kInvalid,
                "--registry: {} {} is no address that others can use; --advertise HOST says which "
                "is",
                flag, address);
  };
  if (cluster.role != Role::kEncoder && is_wildcard(settings.host))
    return nowhere("--host", settings.host);
  if (cluster.role != Role::kEncoder && settings.host.starts_with('/'))
    return nowhere("--uds", settings.host);
  for (const std::string& address : cluster.listen) {
    if (!address.starts_with(kUnix) && is_wildcard(address.substr(0, address.rfind(':'))))
      return nowhere("--cluster-listen", address);
  }
  return {};
}

Result<std::unique_ptr<ClusterStore>> ClusterStore::create(const ServeSettings& settings,
                                                           const ModelShape* shape,
                                                           const Device& device,
                                                           const Clock& clock) {
  const ClusterSettings& cluster = settings.cluster;
  if (cluster.registry.empty()) return nullptr;
  TRY(const cluster::StoreAddress address,
      cluster::read_store_address(cluster.registry, cluster.registry_password_file));
  TRY(const std::string key, cluster::read_cluster_key(cluster.key_file));
  std::string id = cluster::hex_of(cluster::random_bytes(8));
  cluster::SharedStoreSettings store;
  store.registry.key = key;
  store.seed = hash64(id);
  if (shape != nullptr && cluster.shared_rows) {
    const cluster::Greeting self = greeting_of(*shape, device);
    cluster::RowStoreSettings& rows = store.rows.emplace();
    rows.of = {self.fingerprint, self.numerics, self.row_bytes};
    rows.format = format_of(shape->embedding_dtype);
    rows.key = key;
    rows.maker = id;
    rows.ttl = cluster.shared_rows_ttl;
    rows.max_bytes = cluster.shared_rows_bytes;
    if (key.empty() && !cluster::is_local_address(address.host + ":0") && address.path.empty())
      log::warning(
          "--registry {} without --cluster-key-file: whoever can write there decides what images "
          "look like",
          address.display());
  }
  log::info("registry {}, as {}{}", address.display(), id,
            store.rows ? "; rows are shared there" : "");
  return std::unique_ptr<ClusterStore>(
      new ClusterStore(settings, clock, store, address, std::move(id)));
}

ClusterStore::ClusterStore(const ServeSettings& settings, const Clock& clock,
                           const cluster::SharedStoreSettings& store,
                           const cluster::StoreAddress& address, std::string id)
    : settings_(settings),
      id_(std::move(id)),
      store_(
          std::make_unique<cluster::SharedStore>(clock, store, [&](cluster::EventThread& thread) {
            return cluster::make_redis_link(address, clock, thread);
          })) {}

void ClusterStore::feed(cluster::EmbeddingExchange& exchange) {
  store_->listen([&exchange](const std::vector<cluster::NodeRecord>& nodes) {
    std::vector<cluster::FoundEncoder> found;
    for (const cluster::NodeRecord& node : nodes) {
      if (!node.encodes_at.empty()) found.push_back({node.encodes_at, node.fingerprint});
    }
    exchange.found(std::move(found));
  });
}

void ClusterStore::announce(const LentEncoder* lent, std::uint16_t port) {
  cluster::NodeRecord record;
  record.id = id_;
  record.role = name_in(kRoles, settings_.cluster.role);
  if (lent != nullptr) {
    record.epoch = lent->self().epoch;
    record.encodes_at = encodes_at(settings_.cluster, lent->addresses());
    record.fingerprint = lent->self().fingerprint;
    record.numerics = lent->self().numerics;
    record.row_bytes = lent->self().row_bytes;
  }
  if (port != 0) {
    const ClusterSettings& cluster = settings_.cluster;
    record.url =
        fmt::format("{}://{}:{}{}", settings_.tls_certificate.empty() ? "http" : "https",
                    net::shown_host(cluster.advertise.empty() ? settings_.host : cluster.advertise),
                    port, settings_.root_path);
  }
  store_->announce(std::move(record));
}

void ClusterStore::write_metrics(MetricsText& page) {
  const cluster::SharedStoreStats stats = store_->stats();
  const auto number = [](auto n) { return static_cast<double>(n); };
  const cluster::RegistryStats& registry = stats.registry;
  page.gauge("saccade:registry_up", "1 while the registry answers.", registry.up ? 1 : 0);
  std::map<std::string, double> roles{{"all", 0}, {"encoder", 0}, {"pd", 0}};
  for (const cluster::NodeRecord& node : registry.nodes) {
    const auto role = roles.find(node.role);
    if (role != roles.end()) ++role->second;
  }
  for (const auto& [role, count] : roles)
    page.gauge("saccade:registry_nodes", "Other processes in the registry.", count,
               {{"role", role}});
  page.counter("saccade:registry_failures_total", "Failed requests to the registry.",
               number(registry.failures));
  page.counter("saccade:registry_renewals_total",
               "Renewals of this process's lease in the registry.", number(registry.renewals));
  page.counter("saccade:registry_refused_records_total",
               "Registry records ignored: malformed, or not signed with the cluster's key.",
               number(registry.refused_records));
  if (!stats.rows) return;
  const cluster::RowStoreStats& rows = *stats.rows;
  for (std::size_t i = 0; i < rows.lookups.size(); ++i)
    page.counter("saccade:store_lookups_total",
                 "Lookups of image embeddings in the store, by result.", number(rows.lookups[i]),
                 {{"result", std::string(name_of(static_cast<cluster::Lookup>(i)))}});
  page.counter("saccade:store_lookup_seconds_total",
               "Seconds spent in lookups that were not skipped.", rows.lookup_seconds);
  for (std::size_t i = 0; i < rows.publications.size(); ++i)
    page.counter("saccade:store_publications_total", "Image embeddings to be stored, by result.",
                 number(rows.publications[i]),
                 {{"result", std::string(name_of(static_cast<cluster::Publication>(i)))}});
  for (const auto& [reason, count] : rows.errors)
    page.counter("saccade:store_errors_total", "Errors of the store, by reason.", number(count),
                 {{"reason", reason}});
  page.gauge("saccade:store_open_circuit", "1 while the store is not used because it failed.",
             rows.open ? 1 : 0);
  page.gauge("saccade:store_bytes",
             "Bytes of image embeddings being read from the store (here) or written to it (there).",
             number(rows.reading_bytes), {{"way", "here"}});
  page.gauge("saccade:store_bytes",
             "Bytes of image embeddings being read from the store (here) or written to it (there).",
             number(rows.writing_bytes), {{"way", "there"}});
}

}  // namespace saccade::serve

#include "serve/assembly/image_encoders.h"

#include <algorithm>

#include "base/log.h"
#include "cluster/grpc/encoder_link.h"
#include "serve/assembly/cluster_store.h"
#include "serve/assembly/lent_encoder.h"

namespace saccade::serve {
Result<std::unique_ptr<cluster::EmbeddingExchange>> make_exchange(const ServeSettings& settings,
                                                                  const ModelShape& shape,
                                                                  const Device& device,
                                                                  const Clock& clock,
                                                                  cluster::RowFinder* finder) {
  TRY_DO(cluster::check_grpc());
  const ClusterSettings& cluster = settings.cluster;
  cluster::GrpcLinkSettings link;
  TRY(link.access, read_access(cluster));
  for (std::size_t i = 0; i < cluster.encoders.size(); ++i) {
    const std::string& address = cluster.encoders[i];
    const auto before = cluster.encoders.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::find(cluster.encoders.begin(), before, address) != before)
      return fail(ErrorCode::kInvalid, "--encoders: {} is given twice: it would be asked as two",
                  address);
    const auto checked = cluster::check_address(address);
    if (!checked) return fail_within("--encoders", checked.error());
  }
  link.encoders = cluster.encoders;
  link.self = greeting_of(shape, device);
  link.format = format_of(shape.embedding_dtype);
  link.any_numerics = cluster.any_numerics;
  cluster::ExchangeSettings exchange;
  exchange.self = link.self;
  exchange.encoders = cluster.encoders;
  exchange.strict_numerics = !cluster.any_numerics;
  exchange.tower = cluster.fallback;
  exchange.encoders_first = settings.image_size.mode == ImageSizeMode::kSeedAsPublished;
  exchange.items.fallback = cluster.fallback;
  exchange.items.verify_share = cluster.verify_share;
  exchange.items.receive_bytes = settings.engine.encoder_cache_bytes;
  exchange.seed = link.self.epoch;
  // The published code has no store, and what it does with encoders is to be measured.
  exchange.finder = exchange.encoders_first ? nullptr : finder;
  std::unique_ptr<cluster::EmbeddingExchange> made;
  // The link speaks to the table from the first job on, which runs when both are made.
  made = std::make_unique<cluster::EmbeddingExchange>(
      clock, exchange, [&](cluster::EventThread& thread, cluster::EmbeddingExchange& self) {
        return cluster::make_grpc_link(link, clock, thread,
                                       [&self]() -> cluster::ItemTable& { return self.table(); });
      });
  log::info("images are encoded by {}{}{}{}", fmt::join(cluster.encoders, ", "),
            !cluster.encoders.empty() && !cluster.registry.empty() ? " and " : "",
            cluster.registry.empty() ? "" : "those of the registry",
            !cluster.fallback         ? " alone"
            : exchange.encoders_first ? ", or here where none can"
                                      : ", or here where that is sooner");
  return made;
}

void write_metrics(cluster::EmbeddingExchange& exchange, MetricsText& page) {
  const cluster::ExchangeStats stats = exchange.stats();
  const cluster::ItemStats& items = stats.items;
  const auto number = [](auto n) { return static_cast<double>(n); };
  for (std::size_t i = 0; i < items.items.size(); ++i)
    page.counter("saccade:exchange_images_total",
                 "Images whose embeddings have arrived, by source.", number(items.items[i]),
                 {{"source", std::string(cluster::name_of(static_cast<cluster::Source>(i)))}});
  for (std::size_t i = 0; i < items.failures.size(); ++i)
    page.counter("saccade:exchange_failures_total", "Encode requests that failed, by reason.",
                 number(items.failures[i]),
                 {{"reason", std::string(cluster::name_of(static_cast<cluster::Failure>(i)))}});
  page.counter("saccade:exchange_wanted_total", "Images whose embeddings were needed.",
               number(items.wanted));
  page.counter("saccade:exchange_unwanted_total",
               "Images dropped before their embeddings were ready.", number(items.unwanted));
  page.counter("saccade:exchange_lost_total", "Images that ended in an error.",
               number(items.failed));
  page.counter("saccade:exchange_stale_total", "Answers to encode requests that had ended already.",
               number(items.stale));
  page.counter("saccade:embedding_mismatch_total",
               "Embeddings of one image that differ between processes.", number(items.mismatches));
  page.counter("saccade:embedding_verified_total",
               "Embeddings from encoders that were computed again here.", number(items.verified));
  page.counter("saccade:exchange_away_total",
               "Encode requests sent to another encoder than the image's own because it was "
               "predicted to be faster.",
               number(items.away));
  page.counter("saccade:exchange_hedges_total", "Hedged encode requests.", number(items.hedges));
  page.counter("saccade:exchange_hedge_wins_total",
               "Hedged encode requests that were answered first.", number(items.hedge_wins));
  page.gauge("saccade:exchange_open_images", "Images waiting for their embeddings.",
             number(stats.open));
  page.gauge("saccade:exchange_receiving_bytes", "Bytes of image embeddings being received.",
             number(stats.receiving_bytes));
  for (const auto& encoder : stats.encoders)
    page.gauge("saccade:encoder_up", "1 for an encoder that is in use.",
               encoder.state == "up" ? 1 : 0,
               {{"encoder", encoder.name}, {"state", encoder.state}});
  for (const auto& encoder : stats.encoders)
    page.gauge("saccade:encoder_backlog_seconds",
               "Predicted seconds until an encoder would begin a new image.",
               encoder.backlog_ms / 1e3, {{"encoder", encoder.name}});
  for (const auto& encoder : stats.encoders)
    page.gauge("saccade:encoder_open_images", "Encode requests in progress at an encoder.",
               number(encoder.open), {{"encoder", encoder.name}});
}

}  // namespace saccade::serve

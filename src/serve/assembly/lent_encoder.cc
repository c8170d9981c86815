#include "serve/assembly/lent_encoder.h"

#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/regular_file.h"
#include "memory/embedding_store.h"

namespace saccade::serve {
namespace {

// Counted up when a change of the kernels changes the bits of an embedding.
constexpr int kKernelRevision = 1;

Result<std::string> file_of(const char* flag, const std::string& path) {
  if (path.empty()) return std::string();
  constexpr std::size_t kMost = std::size_t{1} << 20;
  auto text = read_regular_file(path, kMost);
  if (!text) return fail_within(flag, std::move(text).error());
  return text;
}

}  // namespace

cluster::Greeting greeting_of(const ModelShape& shape, const Device& device) {
  CHECK(!shape.tower_fingerprint.empty(), "a tower without a name; the network's shape has it");
  cluster::Greeting self;
  self.node = to_hex(sha256(cluster::random_bytes(16))).substr(0, 16);
  const std::string epoch = cluster::random_bytes(sizeof self.epoch);
  std::memcpy(&self.epoch, epoch.data(), sizeof self.epoch);
  self.fingerprint = shape.tower_fingerprint;
  const std::string description = device.description();
  self.numerics = fmt::format("{} {} r{}", description.substr(0, description.find(',')),
                              name_of(shape.embedding_dtype), kKernelRevision);
  self.row_bytes =
      static_cast<std::uint64_t>(shape.embedding_width()) * size_of(shape.embedding_dtype);
  return self;
}

Result<cluster::Access> read_access(const ClusterSettings& settings) {
  cluster::Access access;
  TRY(access.key, cluster::read_cluster_key(settings.key_file));
  TRY(access.certificate, file_of("--cluster-tls-cert", settings.tls_certificate));
  TRY(access.private_key, file_of("--cluster-tls-key", settings.tls_key));
  TRY(access.authority, file_of("--cluster-tls-ca", settings.tls_authority));
  if (access.certificate.empty() != access.private_key.empty() ||
      access.certificate.empty() != access.authority.empty())
    return fail(ErrorCode::kInvalid,
                "--cluster-tls-cert, --cluster-tls-key and --cluster-tls-ca go together: each side "
                "shows the other a certificate");
  return access;
}

Result<std::unique_ptr<LentEncoder>> LentEncoder::create(const ServeSettings& settings,
                                                         const Model& model, const Device& device,
                                                         LentImages& images, const Clock& clock,
                                                         cluster::SharedStore* store) {
  TRY(const cluster::Access access, read_access(settings.cluster));
  auto lent = std::unique_ptr<LentEncoder>(new LentEncoder(
      settings, *model.processor, images, clock, greeting_of(model.shape(), device)));
  cluster::EncoderServerSettings door;
  door.addresses = settings.cluster.listen;
  door.access = access;
  door.self = lent->self_;
  TRY(lent->server_, cluster::EncoderServer::create(door, *lent->thread_));
  cluster::DeskSettings desk;
  desk.self = lent->self_;
  desk.max_rows = images.max_rows();
  desk.row_bytes = settings.engine.encoder_cache_bytes;
  desk.media_bytes = settings.max_preparing_bytes;
  desk.max_media_bytes = settings.max_request_media_bytes;
  // The encoder's kernels have no word for a row that went wrong: the store looks at each.
  if (store != nullptr && store->has_rows())
    desk.made = [store](const Digest& key, std::int64_t count,
                        const std::shared_ptr<const cluster::MadeRows>& rows) {
      store->publish(key, count, rows->bytes, rows->digest, rows);
    };
  ImageMaker& maker = *lent;
  lent->desk_ = std::make_unique<cluster::EncoderDesk>(clock, lent->thread_->timers(), maker,
                                                       *lent->server_, desk);
  TRY_DO(lent->server_->listen(*lent->desk_));
  for (const std::string& address : lent->server_->addresses())
    log::info("encoding for others on {} ({})", address,
              access.tls()         ? "TLS"
              : access.key.empty() ? "this machine alone, no key"
                                   : "shared key");
  log::info("tower {:.12}, numerics \"{}\"", lent->self_.fingerprint, lent->self_.numerics);
  return lent;
}

LentEncoder::LentEncoder(const ServeSettings& settings, const Processor& processor,
                         LentImages& images, const Clock& clock, const cluster::Greeting& self)
    : settings_(settings),
      processor_(processor),
      images_(images),
      self_(self),
      thread_(std::make_unique<cluster::EventThread>(clock)) {}

LentEncoder::~LentEncoder() { stop(std::chrono::seconds(0)); }

void LentEncoder::start_draining() {
  thread_->call([this] { desk_->drain(); });
}

std::size_t LentEncoder::unfinished() {
  std::size_t open = 0;
  thread_->call([&] { open = desk_->calls(); });
  return open;
}

void LentEncoder::stop(std::chrono::seconds limit) {
  if (std::exchange(stopped_, true)) return;
  if (server_) server_->stop(std::chrono::nanoseconds(limit).count());
  thread_->stop();
  desk_.reset();
}

// --- the desk's thread ---

Result<RebuiltImage> LentEncoder::rebuild(Job& job) const {
  TRY(RebuiltImage made,
      rebuild_image(processor_, job.recipe, std::move(job.files),
                    ImageLimits{.max_pixels = settings_.max_image_pixels}, job.held));
  if (made.layout.tokens != job.rows || made.layout.key != job.layout_key)
    return fail(ErrorCode::kInvalid, "the image has {} rows here ({}), {} were asked for ({:.200})",
                made.layout.tokens, made.layout.key, job.rows, job.layout_key);
  if (embedding_key(made.content, made.layout.key, self_.fingerprint) != job.key)
    return fail(ErrorCode::kInvalid, "the name of the rows is not that of this image");
  return made;
}

void LentEncoder::make(Job job) {
  auto made = rebuild(job);
  if (!made) {
    thread_->post([this, key = job.key, error = made.error()] {
      if (desk_) desk_->failed(key, error);
    });
    return;
  }
  images_.encode(job.key, made->source, [this](const Digest& key, Result<EncodedImage> image) {
    const auto rows = std::make_shared<Result<EncodedImage>>(std::move(image));
    thread_->post([this, key, rows] {
      if (!desk_) return;
      if (!*rows) return desk_->failed(key, rows->error());
      desk_->made(key, {std::move((*rows)->rows), (*rows)->queued, (*rows)->encoded});
    });
  });
}

void LentEncoder::let_go(const Digest& key) { images_.let_go(key); }

EncodeCost LentEncoder::cost() const { return images_.cost(); }

void LentEncoder::write_metrics(MetricsText& page) {
  cluster::DeskStats stats;
  std::size_t calls = 0;
  std::size_t images = 0;
  std::size_t media = 0;
  std::size_t rows = 0;
  double backlog = 0;
  thread_->call([&] {
    stats = desk_->stats();
    calls = desk_->calls();
    images = desk_->images();
    media = desk_->media_bytes();
    rows = desk_->cache().used_bytes();
    backlog = desk_->report("").backlog_ms;
  });
  const auto number = [](auto n) { return static_cast<double>(n); };
  page.gauge("saccade:lent_calls", "Encode requests of other servers in progress.", number(calls));
  page.gauge("saccade:lent_images", "Images being encoded for other servers.", number(images));
  page.gauge("saccade:lent_backlog_seconds",
             "Predicted seconds until a new image would be encoded.", backlog / 1e3);
  page.gauge("saccade:lent_media_bytes", "Bytes of images waiting to be encoded for other servers.",
             number(media));
  page.gauge("saccade:lent_row_bytes",
             "Bytes of image embeddings being computed, sent and cached for other servers.",
             number(rows));
  page.counter("saccade:lent_orders_total", "Encode requests from other servers.",
               number(stats.orders));
  page.counter("saccade:lent_cached_total", "Encode requests answered from the cache.",
               number(stats.cached));
  page.counter("saccade:lent_joined_total",
               "Encode requests that joined one in progress for the same image.",
               number(stats.joined));
  page.counter("saccade:lent_made_total", "Images encoded for other servers.", number(stats.made));
  page.counter("saccade:lent_let_go_total",
               "Encodes stopped because no server waited for them any more.", number(stats.let_go));
  page.counter("saccade:lent_sent_total", "Encode requests whose image embeddings were sent.",
               number(stats.sent));
  for (const auto& [reason, count] : stats.refused)
    page.counter("saccade:lent_refused_total", "Encode requests refused, by reason.", number(count),
                 {{"reason", reason}});
}

}  // namespace saccade::serve

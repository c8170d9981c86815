// Where a PD's images are encoded: the production pool and item table between the engine's wishes
// and the encoders, as EmbeddingExchange has them between two threads.
#pragma once

#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "cluster/encoder_pool.h"
#include "cluster/item_table.h"
#include "engine/image_exchange.h"
#include "simulate/encoder_net.h"

namespace saccade::simulate {

struct PdImagesSettings {
  int encoders = 0;
  bool tower = true;             // it can encode itself
  std::size_t receive_rows = 0;  // on their way
  std::uint64_t seed = 0;
};

class PdImages final : public ImageExchange,
                       private cluster::EncoderLink,
                       private cluster::RowsConsumer {
 public:
  PdImages(EventLoop& loop, EncoderNet& net, const PdImagesSettings& settings);

  void set_wake(std::function<void()> wake) override { wake_ = std::move(wake); }
  void want(WantedImage image) override;
  void unwant(const Digest& key, std::uint64_t ticket) override;
  void made_here(const Digest& key, std::uint64_t ticket, std::optional<Digest> digest) override;
  void failed_here(const Digest& key, std::uint64_t ticket, const Error& error) override;
  void compared(const Digest&, std::optional<Digest>) override {}
  void measured(const EncodeCost& cost) override { cost_ = cost; }
  std::vector<ImageNews> take() override { return std::exchange(news_, {}); }

  bool has_news() const { return !news_.empty(); }
  const cluster::ItemStats& stats() const { return table_->stats(); }
  std::size_t open() const { return table_->items() + table_->attempts(); }
  std::size_t receiving_rows() const { return table_->receiving_bytes(); }

 private:
  void ask(const cluster::AttemptId& attempt, const cluster::Order& order, Nanos left) override;
  void receive(const cluster::AttemptId& attempt, std::shared_ptr<cluster::RowPages> into) override;
  void cancel(const cluster::AttemptId& attempt) override;
  cluster::LocalLoad local() const override;
  void encode_here(const Digest& key, cluster::Ticket ticket, bool beside) override;
  void deliver(const Digest& key, cluster::Ticket ticket, cluster::Rows rows) override;
  void fail(const Digest& key, cluster::Ticket ticket, const Error& error) override;
  void verify(const cluster::Order&, cluster::Rows, const cluster::AttemptId&) override {}
  void tell(ImageNews news);
  void end_here(const Digest& key);

  EventLoop& loop_;
  EncoderNet& net_;
  PdImagesSettings settings_;
  Rng rng_;
  cluster::EncoderPool pool_;
  std::unique_ptr<cluster::ItemTable> table_;
  int asker_ = 0;
  std::function<void()> wake_;
  std::vector<ImageNews> news_;
  EncodeCost cost_;
  std::unordered_map<Digest, std::int64_t, DigestHash> here_;  // rows that are being made here
  std::unordered_map<Digest, std::int64_t, DigestHash> rows_;  // of what is wanted
  Nanos here_since_ = 0;
};

}  // namespace saccade::simulate

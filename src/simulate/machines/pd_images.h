// Where a PD's images are encoded: the production pool and item table between the engine's wishes
// and the encoders, as EmbeddingExchange has them between two threads.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "cluster/encoder_pool.h"
#include "cluster/item_table.h"
#include "cluster/own_encodes.h"
#include "engine/images/image_exchange.h"
#include "simulate/machines/encoder_net.h"

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
  void measured(const EncodeCost& cost) override { own_.measured(cost); }
  std::vector<ImageNews> take() override { return std::exchange(news_, {}); }

  bool has_news() const { return !news_.empty(); }
  const cluster::ItemStats& stats() const { return table_->stats(); }
  std::size_t open() const { return table_->items() + table_->attempts(); }
  std::size_t receiving_rows() const { return table_->receiving_bytes(); }

 private:
  void ask(const cluster::AttemptId& attempt, const cluster::Order& order, Nanos left) override;
  void receive(const cluster::AttemptId& attempt, std::shared_ptr<cluster::RowPages> into) override;
  void cancel(const cluster::AttemptId& attempt) override;
  cluster::LocalLoad local() const override { return own_.load(settings_.tower); }
  void encode_here(const Digest& key, cluster::Ticket ticket, bool beside) override;
  void deliver(const Digest& key, cluster::Ticket ticket, cluster::Rows rows) override;
  void fail(const Digest& key, cluster::Ticket ticket, const Error& error) override;
  void verify(const cluster::Order&, cluster::Rows, const cluster::AttemptId&) override {}
  void add_news(ImageNews news);

  EncoderNet& net_;
  PdImagesSettings settings_;
  Rng rng_;
  cluster::EncoderPool pool_;
  cluster::OwnEncodes own_;
  std::unique_ptr<cluster::ItemTable> table_;
  int requester_ = 0;
  std::function<void()> wake_;
  std::vector<ImageNews> news_;
};

}  // namespace saccade::simulate

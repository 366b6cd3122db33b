// Data: IDX files, MNIST, images, and a loader that shuffles, batches and prefetches.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "calor/tensor.h"

namespace calor::data {

/// Reads an IDX file (LeCun's format: magic, sizes big-endian, elements), gzip-compressed or not. Element types u8, i8,
/// i16, i32, f32, f64. Throws IoError [io/open], [io/read], [io/truncated], [io/corrupt].
Tensor read_idx(const std::string& path, const Where& where = Where::current());

/// The MNIST files of a folder: images u8 [N, 28, 28], labels u8 [N].
struct Mnist {
    Tensor train_images, train_labels, test_images, test_labels;
};
/// Reads train-images-idx3-ubyte(.gz) and its three companions, and checks that they belong together.
/// Throws IoError [io/open], [io/corrupt], ...
Mnist load_mnist(const std::string& folder, const Where& where = Where::current());

struct ImageOptions {
    int channels = 3;           ///< 1 (grey) or 3
    int height = 0, width = 0;  ///< resize to this; 0: as it is
};
/// A PNG or JPEG file as u8 [channels, height, width]. Throws IoError [io/open], [io/image], ValueError [value/option].
Tensor read_image(const std::string& path, const ImageOptions& options = {}, const Where& where = Where::current());

/// Writes a PNG file: u8 [1 or 3, height, width] or [height, width], or floating values of 0 (black, as everything
/// below and NaN) to 1. The file is replaced atomically. Throws ShapeError [shape/mismatch], DTypeError
/// [dtype/unsupported], IoError [io/write].
void write_image(const std::string& path, const Tensor& image, const Where& where = Where::current());

/// What a loader hands out: for (auto [inputs, targets] : loader).
struct Batch {
    Tensor inputs, targets;
};

/// Something with numbered samples.
class Dataset {
public:
    virtual ~Dataset() = default;
    virtual std::int64_t size() const = 0;
    /// The samples with these numbers as one batch. Called from the loader's thread.
    virtual Batch batch(std::span<const std::int64_t> samples) const = 0;
};

/// Samples along the first axis of two tensors in memory. u8 inputs become f32 with value * scale + shift.
class TensorDataset final : public Dataset {
public:
    struct Options {
        float scale = 1.0F / 255.0F;
        float shift = 0.0F;
    };
    /// Inputs [N, ...], targets [N, ...]. Throws ShapeError [shape/mismatch].
    TensorDataset(const Tensor& inputs, const Tensor& targets, Options options, const Where& where = Where::current());
    TensorDataset(const Tensor& inputs, const Tensor& targets, const Where& where = Where::current())
        : TensorDataset(inputs, targets, Options(), where) {}
    std::int64_t size() const override { return count_; }
    Batch batch(std::span<const std::int64_t> samples) const override;

private:
    Tensor inputs_, targets_;
    Options options_;
    std::int64_t count_ = 0;
};

struct LoaderOptions {
    std::int64_t batch_size = 64;
    bool shuffle = false;    ///< a new order every epoch, a function of (seed, epoch) alone
    bool drop_last = false;  ///< leave out a last batch that is not full
    std::uint64_t seed = 0;
    std::int64_t prefetch = 4;  ///< batches made ahead by a thread; 0: made when asked for
};

/// Batches of a dataset, epoch by epoch. Each begin() starts the next epoch.
class Loader {
public:
    /// Throws ValueError [value/option].
    Loader(std::shared_ptr<const Dataset> dataset, LoaderOptions options, const Where& where = Where::current());
    ~Loader();
    Loader(Loader&&) noexcept;
    Loader& operator=(Loader&&) noexcept;

    /// Batches of an epoch.
    std::int64_t size() const;
    /// Epochs begun so far, or as seek() said.
    std::int64_t epoch() const;
    /// The next begin() starts at this batch of this epoch: for resuming.
    void seek(std::int64_t epoch, std::int64_t batch, const Where& where = Where::current());

    struct End {};
    class Iterator {
    public:
        const Batch& operator*() const { return current_; }
        Iterator& operator++();
        friend bool operator==(const Iterator& it, End) { return it.done_; }

    private:
        friend class Loader;
        explicit Iterator(Loader* loader) : loader_(loader) { ++*this; }
        Loader* loader_;
        Batch current_;
        bool done_ = false;
    };
    /// Errors of the dataset (made in the loader's thread) are thrown by begin() and ++.
    Iterator begin();
    End end() const { return {}; }

private:
    struct State;
    std::unique_ptr<State> state_;
};

/// A permutation of 0..count-1 that depends on (seed, epoch) alone.
std::vector<std::int64_t> shuffled(std::int64_t count, std::uint64_t seed, std::uint64_t epoch);

}  // namespace calor::data
